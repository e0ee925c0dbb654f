"""Are projects that people write attached, drilled and restored: replicas, a Galera cluster, two at once?"""

import json
import secrets
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest
from replication_lab.world import clock
from replication_lab.world.docker import attachments, compose_call, engine, project
from replication_lab.world.docker import images as images_of_lab

from tests.lab import attaching
from tests.lab.conftest import NOISE_IGNORED

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
SECONDS = 60


@pytest.fixture(scope="module", autouse=True)
def images(built):
    """Build the database and the application of the projects."""
    attaching.build()


def test_replicas_of_a_project_are_recognised_drilled_and_restored(command, attach, started):
    """The replica follows across its link by another name of the source; both links lose nothing when they are cut."""
    name = started("replicas")
    before = attaching.settings(name)
    answer = attach("replicas", name, "--link", "app:db", "--link", "db-replica:db", "--rtt", "40ms")

    assert answer.returncode in (0, 3), answer.stderr
    assert "verified: db-replica uses link db-db-replica" in answer.stderr
    attaching.ask(name)
    shown = command("status", "--json", "--lab", name).stdout
    roles = {node["name"]: node["role"] for node in json.loads(shown)[0]["nodes"]}
    assert roles["db"] == "source" and roles["db-replica"] == "replica"
    links = attaching.described(shown)
    assert links["app-db"]["use"].startswith("connections of app so far: ")
    assert links["db-db-replica"]["use"].startswith("connections of db-replica so far: ")
    for fault in ("cut-replication", "pause-db"):
        code, said = attaching.drilled(command, name, "--drill", fault, "--probe", attaching.PROBE)
        assert code == 0 and "HOLDS" in said and "of 0 probes" not in said, said
    attaching.restored(command, "replicas", name, before)


def test_drills_of_a_project_with_a_proxy_have_their_clients_there(command, attach, started):
    """The server behind it is killed: the same address serves again, and each answer tells the server."""
    images_of_lab.ensure(["haproxy"])
    name = started("proxied")
    before = attaching.settings(name)
    refused = attach("proxied", name, "--link", "app:db", "--endpoint", "db:3306")
    assert refused.returncode == 2 and "db is a database server" in refused.stderr
    answer = attach("proxied", name, "--link", "app:db", "--endpoint", "proxy:6033")
    assert answer.returncode in (0, 3), answer.stderr

    code, said = attaching.drilled(command, name, "--drill", "kill-db")
    assert code == 0, said
    assert "endpoint      proxy:6033" in said, said
    attaching.restored(command, "proxied", name, before)


@pytest.mark.parametrize(
    ("drills", "failovers"),
    [
        (["kill-db1 --duration 30s", "kill-db2", "pause"], 1),
        (["slow-link", "cut-replication", "manager-kill", "manager-cut"], 0),
    ],
    ids=["servers", "links and manager"],
)
def test_a_project_with_a_failover_manager_of_its_own_passes_its_drills(command, attach, started, drills, failovers):
    """Its manager promotes the other server, lets the first one follow and gives its role back: nothing is lost."""
    images_of_lab.ensure(["haproxy"])
    name = started("managed")
    before, asked = attaching.settings(name), ("--link", "proxy:db1", "--link", "db2:db1", "--endpoint", "proxy:3306")
    refused = attach("managed", name, *asked, "--manager", "db2")
    assert refused.returncode == 2 and "--manager db2: db2 is a database server" in refused.stderr
    answer = attach("managed", name, *asked, "--manager", "failover")
    assert answer.returncode in (0, 3), answer.stderr

    assert "manager failover: failover runs" in command("status", "--lab", name).stdout
    for drill in drills:
        # A ratio of latencies is no proof beside other tests.
        code, said = attaching.drilled(partial(command, module=NOISE_IGNORED), name, "--drill", *drill.split())
        assert code == 0, said
    told = subprocess.run(["docker", "logs", f"{name}-failover-1"], capture_output=True, text=True, check=True).stdout
    assert told.count(": db2 takes over") == failovers == told.count("it gets its role back"), told
    attaching.restored(command, "managed", name, before)


def test_a_volume_without_a_name_is_told_and_can_be_removed(command, attach, started):
    """The replica's data are on one. Compose keeps it after the recreation, and the printed command removes it."""
    name = started("replicas")
    before = attaching.settings(name)
    answer = attach("replicas", name, "--link", "db:db-replica")

    assert answer.returncode == 0, answer.stderr
    assert "db-replica has /var/lib/mysql on a volume without a name" in answer.stderr
    said = attaching.restored(command, "replicas", name, before)
    (remove,) = (line.split() for line in said.splitlines() if "docker volume rm " in line)
    attaching.compose("replicas", name, "down", "--volumes", "--timeout", "1")
    assert remove[-1] in {volume.name for volume in engine.client().volumes.list()}
    subprocess.run(remove, check=True, capture_output=True)


def test_a_replica_that_would_not_find_its_relay_log_is_refused(command, tmp_path):
    """By default it is named after the container: a recreated replica has stopped for good on a real server."""
    folder = Path(shutil.copytree(attaching.PROJECTS / "replicas", tmp_path / "replicas"))
    settings = folder / "config" / "replica.cnf"
    settings.write_text(settings.read_text().replace("relay-log = relay\n", ""))
    name = f"replicas-{secrets.token_hex(3)}"
    with attaching.running(folder, name):
        before = attaching.settings(name)
        asked = ("attach", "-f", str(folder / "docker-compose.yml"), "-p", name, "--link", "db:db-replica", "--yes")
        answer = command(*asked, **attaching.ENVIRONMENT)

        assert answer.returncode == 2
        assert "db-replica names its logs after its container (relay log" in " ".join(answer.stderr.split())
        assert attaching.settings(name) == before


@pytest.mark.parametrize("by", ["detach", "another command"])
def test_a_project_whose_toxiproxies_were_removed_by_hand_is_restored(command, attach, started, by):
    """Its application has lost its database, and Compose cannot stop it; `lab detach` repairs both."""
    name = started("replicas")
    before = attaching.settings(name)
    assert attach("replicas", name, "--link", "app:db").returncode in (0, 3)
    for container in attachments.containers()[name]:
        container.remove(force=True, v=True)

    if by == "detach":
        attaching.restored(command, "replicas", name, before)
    else:
        command("down", "--lab", "no-such-lab")
        assert attaching.settings(name) == before
    attaching.ask(name)
    attaching.compose("replicas", name, "down", "--timeout", "1")
    assert not compose_call.containers(name)


def test_a_cluster_is_drilled_and_a_node_that_does_not_come_back_is_told(command, attach, started):
    """Its first node creates a cluster at each start, and refuses to after a kill: that drill is UNKNOWN."""
    name = started("cluster")
    before = attaching.settings(name)
    answer = attach("cluster", name, "--link", "app:db1", "--rtt", "40ms")

    assert answer.returncode in (0, 3), answer.stderr
    refused = attach("cluster", name, "--link", "db2:db1")
    assert refused.returncode == 2
    for fault in ("cut-link", "kill-db3"):
        code, said = attaching.drilled(command, name, "--drill", fault)
        assert code == 0, said
    code, said = attaching.drilled(command, name, "--drill", "kill-db1")
    assert code == 3 and "db1 exited with status 1 instead of restarting" in said, said
    # Compose itself cannot bring up the project now.
    detached = command("detach", "--lab", name)
    assert detached.returncode == 1 and f"{name}-db1-1 has ended" in detached.stderr, detached.stderr
    assert attaching.settings(name) == before


def test_two_projects_are_attached_at_once(command, attach, started):
    """Each has its own proxies and conditions; one goes without the other."""
    names = {folder: started(folder) for folder in ("shop", "replicas")}
    before = {folder: attaching.settings(name) for folder, name in names.items()}
    for folder, rtt in (("shop", "100ms"), ("replicas", "40ms")):
        assert attach(folder, names[folder], "--link", "app:db", "--rtt", rtt).returncode in (0, 3)

    toxics = {
        folder: attaching.described(command("status", "--json", "--lab", name).stdout)["app-db"]["toxics"]
        for folder, name in names.items()
    }
    assert toxics == {"shop": ["100ms"], "replicas": ["40ms"]}
    attaching.restored(command, "shop", names["shop"], before["shop"])
    assert names["replicas"] in project.all_labs()
    attaching.restored(command, "replicas", names["replicas"], before["replicas"])


@pytest.mark.parametrize(
    "sent",
    [
        signal.SIGINT,
        signal.SIGKILL,
        *(pytest.param(each, marks=pytest.mark.long) for each in (signal.SIGTERM, signal.SIGHUP)),
    ],
)
def test_an_attach_that_is_stopped_leaves_the_project_and_no_proxy(command, start_command, started, monkeypatch, sent):
    """After SIGKILL the next command restores the project; after Ctrl-C the command itself."""
    for variable, value in attaching.ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)
    name = started("replicas")
    before = attaching.settings(name)
    attach = start_command(*attaching.options("replicas", name, "--link", "app:db", "--rtt", "40ms"))
    clock.wait_until(lambda: name in attachments.containers(), "a proxy", SECONDS)
    attach.send_signal(sent)
    attach.wait(SECONDS)
    if sent == signal.SIGKILL:
        # Any command that starts or removes labs cleans up first; this one then finds nothing to remove.
        command("down", "--lab", "no-such-lab")

    assert name not in attachments.containers() and name not in project.all_labs()
    assert attaching.settings(name) == before
    assert attaching.changed_by_up("replicas", name) == []
    attaching.ask(name)
