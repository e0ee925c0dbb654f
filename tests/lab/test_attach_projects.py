"""Are projects that people write attached, drilled and restored: replicas, a Galera cluster, two at once?"""

import json
import secrets
import signal
from contextlib import ExitStack

import pytest
from replication_lab.world import clock
from replication_lab.world.docker import attachments, project

from tests.lab import attaching

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

FILES = {"shop": "docker-compose.yml", "replicas": "docker-compose.yml", "cluster": "compose.yaml"}
PROBE = "curl -fsS http://localhost:8080/health"
SECONDS = 60


@pytest.fixture(scope="module", autouse=True)
def images(built):
    """Build the database and the application of the projects."""
    attaching.build()


@pytest.fixture
def started():
    """Start projects by their folder; gives each one's name. All are removed at the end."""
    with ExitStack() as stack:

        def start(folder):
            name = f"{folder}-{secrets.token_hex(3)}"
            stack.enter_context(attaching.running(folder, name))
            return name

        yield start


def options(folder, name, *others):
    return ("attach", "-f", str(attaching.PROJECTS / folder / FILES[folder]), "-p", name, *others, "--yes")


@pytest.fixture
def attach(command):
    """Run `lab attach` on a project of a folder."""

    def run(folder, name, *others):
        return command(*options(folder, name, *others), **attaching.ENVIRONMENT)

    return run


def containers(name, service):
    return f"{name}-{service}-1"


def ask(name):
    """Let the application open its connections."""
    return attaching.inside(containers(name, "app"), *PROBE.split())


def restored(command, folder, name, before):
    """Detach, and compare the project with what it was."""
    ended = command("detach", "--lab", name)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert attaching.settings(name) == before
    assert attaching.changed_by_up(folder, name) == []
    assert name not in project.all_labs()


def drilled(command, name, *others):
    """Return how drills on an attached project ended: the exit status and what was printed."""
    answer = command("drill", "--lab", name, *others)
    return answer.returncode, answer.stdout + answer.stderr


def test_replicas_of_a_project_are_recognised_drilled_and_restored(command, attach, started):
    """The replica follows across its link by another name of the source; both links lose nothing when they are cut."""
    name = started("replicas")
    before = attaching.settings(name)
    answer = attach("replicas", name, "--link", "app:db", "--link", "db-replica:db", "--rtt", "40ms")

    assert answer.returncode in (0, 2), answer.stderr
    assert "verified: db-replica uses link db-db-replica" in answer.stderr
    ask(name)
    shown = json.loads(command("show", "--json", "--lab", name).stdout)
    roles = {node["name"]: node["role"] for node in shown["nodes"]}
    assert roles["db"] == "source" and roles["db-replica"] == "replica"
    links = attaching.described(json.dumps(shown))
    assert links["app-db"]["use"].startswith("connections of app so far: ")
    assert links["db-db-replica"]["use"].startswith("connections of db-replica so far: ")
    for fault in ("cut-replication", "pause-db"):
        code, said = drilled(command, name, "--fault", fault, "--probe", PROBE)
        assert code == 0 and "HOLDS" in said and "of 0 probes" not in said, said
    restored(command, "replicas", name, before)


def test_a_cluster_is_drilled_and_a_node_that_does_not_come_back_is_told(command, attach, started):
    """Its first node creates a cluster at each start, and refuses to after a kill: that drill is UNKNOWN."""
    name = started("cluster")
    before = attaching.settings(name)
    answer = attach("cluster", name, "--link", "app:db1", "--rtt", "40ms")

    assert answer.returncode in (0, 2), answer.stderr
    refused = attach("cluster", name, "--link", "db2:db1")
    assert refused.returncode == 3
    for fault in ("cut-link", "kill-db3"):
        code, said = drilled(command, name, "--fault", fault)
        assert code == 0, said
    code, said = drilled(command, name, "--fault", "kill-db1")
    assert code == 2 and "db1 exited with status 1 instead of restarting" in said, said
    # Compose itself cannot bring up the project now.
    assert command("detach", "--lab", name).returncode == 0
    assert attaching.settings(name) == before


def test_two_projects_are_attached_at_once(command, attach, started):
    """Each has its own proxies and conditions; one goes without the other."""
    names = {folder: started(folder) for folder in ("shop", "replicas")}
    before = {folder: attaching.settings(name) for folder, name in names.items()}
    for folder, rtt in (("shop", "100ms"), ("replicas", "40ms")):
        assert attach(folder, names[folder], "--link", "app:db", "--rtt", rtt).returncode in (0, 2)

    toxics = {
        folder: attaching.described(command("show", "--json", "--lab", name).stdout)["app-db"]["toxics"]
        for folder, name in names.items()
    }
    assert toxics == {"shop": ["100ms"], "replicas": ["40ms"]}
    restored(command, "shop", names["shop"], before["shop"])
    assert names["replicas"] in project.all_labs()
    restored(command, "replicas", names["replicas"], before["replicas"])


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_an_attach_that_is_stopped_leaves_the_project_and_no_proxy(command, start_command, started, monkeypatch, sent):
    """After SIGKILL the next command restores the project; after Ctrl-C the command itself."""
    for variable, value in attaching.ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)
    name = started("replicas")
    before = attaching.settings(name)
    attach = start_command(*options("replicas", name, "--link", "app:db", "--rtt", "40ms"))
    clock.wait_until(lambda: name in attachments.containers(), "a proxy", SECONDS)
    attach.send_signal(sent)
    attach.wait(SECONDS)
    if sent == signal.SIGKILL:
        # Any command that starts or removes labs cleans up first; this one then finds nothing to remove.
        command("down", "--lab", "no-such-lab")

    assert name not in attachments.containers() and name not in project.all_labs()
    assert attaching.settings(name) == before
    assert attaching.changed_by_up("replicas", name) == []
    ask(name)
