"""Do the images for arm64 build, and does a pair of their servers replicate? By emulation, so no figure is judged."""

import pytest
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import images

from tests.lab import arm64
from tests.lab.conftest import NOISE_IGNORED

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not arm64.is_emulated(), reason="needs qemu-user-static, registered in binfmt_misc with flag F"),
]


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("mariadb", "mariadbd --version"),
        ("mysql", "mysqld --version"),
        ("load", "sysbench --version && fio --version"),
        ("clients", "python3 -c 'import pymysql, msgspec; print(pymysql.__version__)'"),
    ],
)
def test_an_image_is_built_and_its_programs_run(name, program, built):
    """On the processor that it is for."""
    image = arm64.built(name)
    status, said = images.said_by(image, f"{program} && uname -m")

    assert status == 0 and said.split()[-1] == "aarch64", said
    assert images.processor(image) == "arm64"


def test_toxiproxy_is_compiled():
    """Its image has no shell; the compiler is emulated, too, so this takes long."""
    proxy = arm64.built("toxiproxy")
    said = docker_engine.client().containers.run(proxy, entrypoint="/toxiproxy-cli", command=["--version"], remove=True)

    assert "2.12.0" in said.decode() and images.processor(proxy) == "arm64"


@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
def test_a_semisync_pair_of_arm64_servers_replicates(engine, command, name, built):
    """All proofs of a start hold: the link, a commit that waits for the replica, a row that arrives.

    Toxiproxy is this machine's own.
    """
    asked = ("semisync", "--image", arm64.built(engine), "--engine", engine)
    up = command("up", *asked, "--lab", name, module=NOISE_IGNORED)
    there = command("sql", "replica", "-e", "SELECT @@version_compile_machine", "--lab", name)
    down = command("down", "--lab", name)

    assert up.returncode == 0 and up.stderr.count("verified: ") == 4, up.stdout + up.stderr
    assert there.stdout.split()[-1] == "aarch64", there.stdout + there.stderr
    assert down.returncode == 0, down.stderr
