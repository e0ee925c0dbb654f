"""Does a server start from an image of others that follows the vendors' contract?"""

import json
import subprocess
from pathlib import Path

import pytest
from replication_lab.world import lab_files
from replication_lab.world.docker import engine, project

IMAGE = "vendor.example/mariadb:11.8"
SOURCES = Path(__file__).parent / "vendor"


@pytest.fixture(scope="module")
def vendors_image(built):
    """Build an image by the vendors' contract on the lab's base, which needs no registry; return its name."""
    subprocess.run(["docker", "buildx", "build", "--load", "-q", "-t", IMAGE, SOURCES], check=True, capture_output=True)
    return IMAGE


@pytest.mark.long
def test_an_image_of_others_comes_up_with_all_proofs(command, vendors_image, name):
    """Semi-sync is proved like on the lab's own image: the image itself says that it is MariaDB."""
    answer = command("up", "semisync", "--image", vendors_image, "--lab", name)

    assert answer.returncode == 0, answer.stderr
    assert "FAILED" not in answer.stderr + answer.stdout
    lab = project.find(name)
    assert lab.engine == vendors_image
    assert {lab.node(node.name).container.attrs["Config"]["Image"] for node in lab.topology.nodes} == {vendors_image}
    assert {"semisync", "wait_point", "gtid"} <= lab.features
    assert lab_files.saved_state(lab.name).proofs and all(proof.ok for proof in lab_files.saved_state(lab.name).proofs)


@pytest.mark.long
def test_an_image_that_is_something_else_is_refused_before_anything_starts(command, vendors_image, name):
    """--engine mysql for an image of MariaDB: what it is, and what to type."""
    before = anonymous_volumes()
    answer = command("up", "semisync", "--image", vendors_image, "--engine", "mysql", "--lab", name)

    assert answer.returncode == 2
    assert f"image {vendors_image} has MariaDB 11.8" in answer.stderr and "is not mysql" in answer.stderr
    assert name not in project.all_labs()
    # The image declares one, and was asked for its version.
    assert anonymous_volumes() <= before


def anonymous_volumes():
    """Return the volumes without a name that no container uses and that hold nothing, unlike those of other tests."""
    found = engine.client().volumes.list(filters={"label": "com.docker.volume.anonymous", "dangling": True})
    return {each.name for each in found if not any(Path(each.attrs["Mountpoint"]).iterdir())}


@pytest.mark.long
def test_an_image_that_cannot_be_had_is_one_error(command, name):
    """Nothing is started for it."""
    answer = command("up", "semisync", "--image", "vendor.example/nothing:1", "--lab", name)

    assert answer.returncode == 2
    assert "image vendor.example/nothing:1 is not on this machine, and pulling it failed" in answer.stderr
    assert "docker load" in answer.stderr and name not in project.all_labs()


@pytest.mark.long
def test_a_question_varies_images(command, vendors_image):
    """Each image is the engine of its cases, and both are up in the same rounds."""
    other = "replication-lab/mariadb:latest"
    answer = command(
        *("ask", "async", "--vary", f"image={vendors_image},{other}", "--duration", "1", "--runs", "3"),
        *("--margin", "100%", "--noise", "accept", "--json"),
    )
    found = json.loads(answer.stdout)

    assert answer.returncode in (0, 3), answer.stderr
    assert found["engines"] == [vendors_image, other]
    assert {lab["version"].partition("-")[0] for lab in found["environment"]["labs"]} == {"11.8.9"}


@pytest.mark.long
def test_one_node_runs_an_image_of_others(command, vendors_image, name):
    """The source has the lab's own image; semi-sync is proved across both."""
    answer = command("up", "semisync", "--image", f"replica={vendors_image}", "--lab", name)

    assert answer.returncode == 0, answer.stderr
    lab = project.find(name)
    assert lab.engine == f"source=mariadb replica={vendors_image}"
    assert lab_files.saved_state(lab.name).proofs and all(proof.ok for proof in lab_files.saved_state(lab.name).proofs)
    assert not lab.node("source").container.attrs["HostConfig"]["CapAdd"]
