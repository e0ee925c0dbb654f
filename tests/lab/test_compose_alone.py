"""The Compose files are usable without the harness."""

import os
import shutil
import subprocess
from typing import Any

import pytest
from replication_lab import replication
from replication_lab.lab import up as labs
from replication_lab.replication.pacemaker import ManagedMachines
from replication_lab.world import catalogue
from replication_lab.world.docker import images, project
from replication_lab.world.docker.lab import PASSWORDS
from replication_lab.world.machines import drbd
from replication_lab.world.machines.pacemaker import PacemakerCluster

FILES = catalogue.topologies()
# Drills bring the others up, by the same files.
QUICK = "semisync"
# It hangs when it takes longer, on a slow machine too.
UP_SECONDS = 300
ALONE = catalogue.COMPOSE / ".env"
REPLICATION = {name: catalogue.topology(name).replication for name in FILES}
# Images from images/ that a topology needs besides its servers', by replication, manager or its name.
OWN = {
    "galera": {"sidecar"},
    "galera-arbiter": {"garbd"},
    "group": {"sidecar"},
    "drbd": {"vm", "spindle"},
    "pacemaker": {"arbiter", "load"},
}

VENDORS = {"mariadb": "mariadb:11.8", "mysql": "mysql:8.4", "percona": "percona/percona-server:8.4"}


@pytest.fixture(scope="module", autouse=True)
def password():
    """Create what Compose needs from one call of ./lab."""
    subprocess.run([catalogue.ROOT / "lab", "--help"], check=True, capture_output=True)


def up(docker_compose):
    """Wait until all are healthy; else fail with the containers' logs."""
    shell: dict[str, Any] = {"cwd": catalogue.ROOT, "capture_output": True, "text": True, "timeout": UP_SECONDS}
    done = subprocess.run([*docker_compose, "up", "--wait"], check=False, **shell)
    if done.returncode:
        logs = subprocess.run([*docker_compose, "logs", "--tail=40"], check=False, **shell)
        pytest.fail(f"{done.stderr[-2000:]}\n{logs.stdout}")


@pytest.mark.parametrize(
    "topology",
    [
        name if name == QUICK else pytest.param(name, marks=pytest.mark.long)
        for name in FILES
        if REPLICATION[name] != "drbd"
    ],
)
def test_a_compose_file_alone_gives_a_replicating_topology(topology, name):
    """`docker compose up --wait` and nothing else: a row of the source is on every other node."""
    # The file of a MySQL group names MySQL where no engine is named.
    engine = "mysql-8.0" if REPLICATION[topology] == "group" else "mariadb"
    images.ensure(labs.image_names(engine, topology=catalogue.topology(topology)))
    docker_compose = ["docker", "compose", "-p", name, "-f", f"compose/{topology}.yaml"]

    up(docker_compose)

    lab = project.find(name)
    source = lab.node(lab.topology.source.name).server()
    source.execute("CREATE TABLE lab.t (id INT PRIMARY KEY)", "INSERT INTO lab.t VALUES (42)")
    replication.of(lab).wait_until_caught_up()
    copies = {node.name: lab.node(node.name).server().value("SELECT id FROM lab.t") for node in lab.topology.nodes}

    assert dict.fromkeys(copies, 42) == copies
    written = dict(line.split("=", 1) for line in ALONE.read_text().splitlines())
    assert {PASSWORDS[user]: password for user, password in lab.passwords.items()} == written
    assert len(set(written.values())) == len(PASSWORDS)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_compose_file_of_a_cluster_of_two_machines_alone_gives_one(name):
    """Pacemaker forms a cluster with a serving machine; after a standby the peer serves with the same row."""
    images.ensure(labs.image_names("mariadb", topology=catalogue.topology("drbd-ha")))
    docker_compose = ["docker", "compose", "-p", name, "-f", "compose/drbd-ha.yaml"]
    up(docker_compose)
    lab = project.find(name)
    ManagedMachines(lab).wait_until_whole()
    first = PacemakerCluster(lab).status().serving
    lab.node(first).server().execute("CREATE TABLE lab.t (id INT PRIMARY KEY)", "INSERT INTO lab.t VALUES (42)")
    replication.of(lab).standby(first)

    assert lab.node(drbd.other(lab, first).node).server().value("SELECT id FROM lab.t") == 42


def test_no_password_is_assumed(tmp_path):
    """In a checkout in which ./lab never ran, Compose refuses and says where one comes from; ./lab writes one once."""
    shutil.copytree(catalogue.COMPOSE, tmp_path / "compose", ignore=shutil.ignore_patterns(".env*"))
    command = ["docker", "compose", "-f", "compose/semisync.yaml", "config"]
    without = {name: value for name, value in os.environ.items() if name not in PASSWORDS.values()}

    refused = subprocess.run(command, cwd=tmp_path, env=without, capture_output=True, text=True, check=False)
    written = ALONE.read_text()
    subprocess.run([catalogue.ROOT / "lab", "--help"], check=True, capture_output=True)

    assert refused.returncode != 0
    assert "none is set; ./lab writes one into compose/.env" in refused.stderr
    assert written == ALONE.read_text() and len(written) > 40
    assert ALONE.stat().st_mode & 0o077 == 0


@pytest.mark.long
def test_the_compose_file_of_a_replicated_disk_alone_gives_one(name):
    """A row of the primary is on the other machine's disk, whose server finds it."""
    images.ensure(labs.image_names("mariadb", topology=catalogue.topology("drbd")))
    docker_compose = ["docker", "compose", "-p", name, "-f", "compose/drbd.yaml"]
    up(docker_compose)
    lab = project.find(name)
    lab.node("node1").server().execute("CREATE TABLE lab.t (id INT PRIMARY KEY)", "INSERT INTO lab.t VALUES (42)")
    replication.of(lab).standby("node1")

    assert lab.node("node2").server().value("SELECT id FROM lab.t") == 42


@pytest.mark.parametrize(
    ("topology", "engine"),
    [
        (topology, engine)
        for topology in FILES
        for engine in ("mariadb", "mysql", "percona")
        if REPLICATION[topology] not in OWN or engine == ("mysql" if REPLICATION[topology] == "group" else "mariadb")
    ],
)
def test_the_vendors_images_fit_the_same_compose_files(topology, engine):
    """LAB_IMAGE is the image of every server; only `config` can be checked without a registry."""
    environment = {**os.environ, "LAB_IMAGE": VENDORS[engine], "ENGINE": engine}

    resolved = subprocess.run(
        ["docker", "compose", "-f", f"compose/{topology}.yaml", "config", "--images"],
        cwd=catalogue.ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )

    kinds = (topology, REPLICATION[topology], catalogue.topology(topology).manager)
    own = {f"replication-lab/{image}" for kind in kinds for image in OWN.get(kind, ())}
    servers = set() if "replication-lab/vm" in own else {VENDORS[engine]}
    proxy = set() if REPLICATION[topology] == "none" else {"replication-lab/toxiproxy"}
    assert servers | proxy | own == set(resolved.stdout.split())


def test_host_ports_are_on_loopback_only(name):
    """Nothing that a lab publishes can be reached from another machine."""
    subprocess.run(
        ["docker", "compose", "-p", name, "-f", "compose/chain.yaml", "up", "--detach"],
        cwd=catalogue.ROOT,
        check=True,
        capture_output=True,
        timeout=UP_SECONDS,
    )

    lab = project.find(name)
    addresses = {
        binding["HostIp"]
        for one in lab.containers.values()
        for bindings in one.ports.values()
        for binding in bindings or []
    }

    assert addresses == {"127.0.0.1"}
