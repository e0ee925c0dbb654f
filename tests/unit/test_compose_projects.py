"""Are labs found by label, kept private, and told apart from what a killed command left behind?"""

import os
import signal
import stat
from types import SimpleNamespace

import pytest
from replication_lab.lab import down as removal
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.world import catalogue, files, lab_files, signals
from replication_lab.world.docker import compose, images, labels, leftovers, not_started, project
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker.lab import Lab
from replication_lab.world.lab_files import LabState
from replication_lab.world.mysql.dialects import dialects

from tests.fakes.docker_engine import CONFIG, Holding, Thing
from tests.fakes.owners import dead, mark

FOLDER, SEMISYNC = str(catalogue.COMPOSE), catalogue.topology("semisync")
# The owner in the labels of an earlier version.
OLD = "999999999-1.00"


@pytest.fixture
def engine(monkeypatch):
    """Return a function that puts things into a fake engine."""

    def holds(*things):
        found = Holding(things)
        monkeypatch.setattr(docker_engine, "client", lambda: found)
        return things

    return holds


@pytest.fixture
def state(monkeypatch, tmp_path):
    """Return runs/labs of this test's own, within a checkout of this test's own."""
    monkeypatch.setattr(catalogue, "ROOT", tmp_path)
    monkeypatch.setattr(lab_files, "FOLDER", tmp_path / "runs" / "labs")
    (tmp_path / "runs" / "labs").mkdir(parents=True)
    return tmp_path / "runs" / "labs"


@pytest.fixture
def lab() -> Lab:
    return Lab("lab-a", SEMISYNC, "mariadb", {"lab": "one", "root": "two", "replicator": "three"})


# --- who owns what ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "kept", "stale"),
    [(dead, False, ["p"]), (dead, True, []), (lambda: "compose", False, []), (mark, False, []), (mark, True, [])],
)
def test_left_behind_is_what_a_dead_process_did_not_keep(engine, state, owner, kept, stale):
    """Owned by the living, kept on purpose or started by Compose alone: none of them is left behind."""
    engine(Thing("p", owner()))
    if kept:
        (state / "p.json").write_text("{}")

    assert leftovers.left_behind() == stale


def test_a_network_alone_is_left_behind_too(engine, state):
    """A process killed before its first container leaves networks and volumes."""
    engine(Thing("n", dead(), kind="network"), Thing("v", dead(), kind="volume"))

    assert leftovers.left_behind() == ["n", "v"]


def test_sweeping_takes_the_dead_and_leaves_the_living(engine, state):
    """Containers with their anonymous volumes, networks, volumes and files of the dead only."""
    killed = [Thing("dead", dead(), kind=kind) for kind in ("container", "network", "volume")]
    living = [Thing("living", mark(), kind=kind) for kind in ("container", "network", "volume")]
    engine(*killed, *living)
    for name, owner in (("dead", dead()), ("living", mark()), ("orphan", dead())):
        files.write_whole(state / f"{name}.env", f"LAB_OWNER={owner}\n".encode())

    assert leftovers.sweep() == ["dead"]
    assert [each.removed for each in (*killed, *living)] == [True] * 3 + [False] * 3
    assert killed[0].options == {"force": True, "v": True}
    assert sorted(path.name for path in state.iterdir()) == ["living.env"]


# --- what is up -------------------------------------------------------------------------------------------------------


def test_a_lab_is_found_by_its_labels(engine):
    """Topology, engine and passwords come from the containers themselves, whichever process started them."""
    engine(Thing("lab-a", "compose"), Thing("lab-a", "compose", "toxiproxy"))
    found = project.find("lab-a")

    assert (found.name, found.topology.name, found.engine) == ("lab-a", "semisync", "mariadb")
    assert found.passwords == {"root": "secret=1", "lab": "secret=2", "replicator": "secret=3"}
    assert set(found.containers) == {"source", "toxiproxy"}


def test_a_lab_of_an_older_version_has_one_password(engine):
    """It can still be used, and removed."""
    engine(Thing("lab-a", "compose", **{"Config": {**CONFIG, "Env": ["MYSQL_ROOT_PASSWORD=one"]}}))

    assert project.find("lab-a").passwords == {"root": "one", "lab": "one", "replicator": "one"}


def test_a_lab_of_another_image_is_found_with_it(engine):
    """It is called by its image, and spoken to in the dialect of the engine whose files it was started with."""
    other = {"Config": {**CONFIG, "Image": "vendor.example/mysql:8.4"}}
    engine(Thing("lab-a", "compose", engine_="mysql", **other))
    found = project.find("lab-a")

    assert found.engine == "vendor.example/mysql:8.4"
    assert found.node("source").dialect is dialects()["mysql"]


def test_a_lab_is_found_while_one_of_its_volumes_is_copied(engine):
    """The container that copies is of the lab's project, but Compose did not make it: it names no Compose file."""
    copying = Thing("lab-a", "compose", "copy")
    del copying.labels[labels.CONFIG_FILES]
    engine(copying, Thing("lab-a", "compose"))

    assert project.find("lab-a").topology.name == "semisync"


def test_the_only_lab_needs_no_name(engine):
    """With one lab up its name may be left out."""
    engine(Thing("lab-a", "compose"))

    assert project.find().name == "lab-a"


def test_asking_for_a_lab_that_is_not_up_is_refused(engine, refused):
    """None up, another up, several up: what is up, and what to type."""
    engine()
    assert refused(project.find).next_step == "./lab up"
    engine(Thing("lab-a", "compose"), Thing("lab-b", "compose"))
    assert refused(project.find, "lab-c").expected == "lab-a, lab-b"

    assert "--lab with one of lab-a, lab-b" in refused(project.find).expected


def test_somebody_elses_compose_file_is_no_lab(engine):
    """A labelled container of a topology that this checkout does not know is passed over."""
    other = Thing("x", "compose")
    other.labels[labels.CONFIG_FILES] = "/srv/other.yaml"
    engine(other)

    assert project.all_labs() == {}


def test_a_lab_in_use_is_one_whose_process_lives(engine):
    """`lab clean` leaves it alone."""
    engine(Thing("lab-a", mark()), Thing("lab-b", dead()), Thing("lab-c", "compose"))

    assert [lab.is_in_use() for lab in project.all_labs().values()] == [True, False, False]
    assert [lab.is_idle() for lab in project.all_labs().values()] == [False, True, False]


def test_what_clean_would_remove_is_listed_and_stays(engine, state, monkeypatch):
    """Leftovers, labs that no running command uses, what arrays left, and images where those are asked for."""
    monkeypatch.setattr(images, "all_tags", lambda: ["replication-lab/load"])
    monkeypatch.setattr(removal.array, "left_in_dev", lambda kept: [f"{len(kept)} kept"])
    monkeypatch.setattr(removal.revisions, "unused", lambda _in_use: [])
    (state / "lab-b.json").write_text("{}")
    used, kept = Thing("lab-a", mark()), Thing("lab-b", dead())
    things = engine(used, kept, Thing("lab-c", "compose"), Thing("d", dead()), Thing("lab-e", OLD))

    assert removal.removable(with_images=False) == ["d", "lab-b", "5 kept"]
    assert removal.removable(with_images=True) == ["d", "lab-b", "5 kept", "replication-lab/load"]
    assert not any(thing.removed for thing in things)


def test_a_project_of_others_is_not_started_over(engine, refused):
    """Compose would recreate its containers: whatever they are, the name is taken."""
    engine(Thing("lab-a", None, "app"), Thing("lab-b", "compose", kind="volume"))

    assert (
        "lab-a is a Compose project that is not a lab of yours: lab-a-app-1"
        in refused(labels.refuse_taken, "lab-a").found
    )
    assert "data of an earlier lab-b exists" in refused(labels.refuse_taken, "lab-b").found
    labels.refuse_taken("lab-c")


def test_a_topology_is_not_read_from_a_file_that_a_label_names(engine, state, tmp_path):
    """Only its name is used, among the topologies of this checkout; a file that `lab up` kept is read."""
    mine = tmp_path / "far.yaml"
    mine.write_text(catalogue.compose_file("async").read_text())
    named = {labels.CONFIG_FILES: f"{mine},/x/lab-a.servers.yaml"}
    engine(Thing("lab-a", "compose", labels=named), Thing("lab-b", "compose", folder="/a,b/compose"))

    assert {name: lab.topology.name for name, lab in project.all_labs().items()} == {"lab-b": "semisync"}
    files.write_whole(state / "lab-a.env", f"LAB_TOPOLOGY={mine}\n".encode())
    assert project.find("lab-a").topology.name == "far"
    (state / "lab-a.env").chmod(0o666)
    assert "lab-a" not in project.all_labs()


def test_a_container_beside_another_has_none_of_its_image_s_labels():
    """Those of the lab only: an image could make it one of an attached project."""
    model = Thing("lab-a", "compose", labels={"replication-lab.attachment": "shop", "x": "y"})
    added = Thing("shop", None, labels={"replication-lab.attachment": "shop", "replication-lab.attached-by": "me"})

    assert labels.of_beside("lab-a", model, "load") == {
        labels.PROJECT: "lab-a",
        labels.LABEL: "compose",
        labels.SERVICE: "load",
    }
    assert labels.of_beside("shop", added, "packets").keys() == {
        *(labels.PROJECT, labels.SERVICE, labels.HASH),
        *("replication-lab.attachment", "replication-lab.attached-by"),
    }


def test_unknown_services_and_stopped_ones_are_worded(engine, refused):
    """A container that is not there, and one that publishes nothing because it stopped."""
    engine(Thing("lab-a", "compose"))
    lab = project.find()

    assert "has no container leaf" in refused(getattr, lab.service("leaf"), "container").found
    assert "source of lab-a does not run" in refused(lab.node("source").published, 3306).found


class Answer:
    def __init__(self, code, out, err):
        self.exit_code, self.output = code, (out, err)


def test_a_failing_command_in_a_container_shows_its_end(engine, refused):
    """Exit status, and the last lines of what it said."""
    (source,) = engine(Thing("lab-a", "compose"))
    said = b"\n".join(b"line %d" % n for n in range(50))
    source.exec_run = lambda *_, **__: Answer(1, b"", said)
    error = refused(project.find().node("source").run, "sysbench", "run")

    assert "`sysbench run` in source ended with status 1" in error.found
    assert "line 49" in error.found and "line 10" not in error.found


def test_a_machine_whose_agent_is_silent_is_told_from_a_command_that_fails(engine, refused):
    """With what its process does, because a guest that hangs can be asked nothing else."""
    (source,) = engine(Thing("lab-a", "compose"))
    doing = b"in 0.3 s its kernel used 0.30 s of CPU\n"

    def answer(command, **_):
        return Answer(255, b"", b"no banner\n") if command[0] == "guest" else SimpleNamespace(output=doing)

    source.exec_run = answer
    error = refused(project.find().node("source").run, "guest", "true")

    assert error.found == "the virtual machine source does not answer (no banner): " + doing.decode().strip()
    assert error.next_step == "./lab logs source --lab lab-a"


# --- starting ---------------------------------------------------------------------------------------------------------


def test_the_password_is_private(state, lab):
    """The file with the lab's password can be read by its owner only, and is written whole."""
    path = lab_files.file_of(lab.name, lab_files.SETTINGS)
    files.write_whole(path, project._environment(lab, {}).encode())

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [path.name for path in state.iterdir()] == ["lab-a.env"]


def test_the_environment_of_a_lab_says_whose_it_is(lab):
    """Project, engine, image in place of its own, password and owner: all that the Compose files ask for."""
    lines = dict(line.split("=", 1) for line in project._environment(lab, {}).splitlines())

    assert lines.pop("LAB_ENDPOINT_PASSWORD") not in lines.values()
    assert lines == {
        "COMPOSE_PROJECT_NAME": "lab-a",
        "ENGINE": "mariadb",
        "LAB_IMAGE": "",
        "LAB_PASSWORD": "one",
        "LAB_ROOT_PASSWORD": "two",
        "LAB_REPLICATOR_PASSWORD": "three",
        "LAB_COMPOSE": FOLDER,
        "LAB_TOPOLOGY": f"{FOLDER}/semisync.yaml",
    } | {"LAB_OWNER": mark(), "LAB_ENGINE_ID": "THIS"}


def test_what_a_lab_remembers_reads_back(state, lab):
    """Proofs and toxics survive; a broken file reads as never proved."""
    proofs = [Proof("semi-sync is on", "1 replica", True)]
    lab_files.save_state(lab.name, LabState("semisync", "mariadb", proofs, {"source-replica": "lan"}))
    assert lab_files.saved_state(lab.name).proofs == proofs
    assert lab_files.saved_state(lab.name).toxics == {"source-replica": "lan"}
    files.write_whole(lab_files.file_of(lab.name, lab_files.STATE), b"{")

    assert lab_files.saved_state(lab.name) is None


def why(lab, stderr):
    return not_started.why_not_started(lab, stderr)


def test_a_busy_port_is_told(lab):
    """Both wordings of the engine come to the same advice."""
    for said in ("bind: address already in use", "Bind for 127.0.0.1:3306 failed: port is already allocated"):
        error = why(lab, f"Error response from daemon: {said}")
        assert "a host port is taken" in error.found and "LAB_PORT_" in error.next_step


def test_a_node_that_never_got_healthy_shows_its_log(engine, lab):
    """The check's last answer and the container's last lines."""
    health = {"Health": {"Status": "unhealthy", "Log": [{"Output": "not replicating\n"}]}}
    (source,) = engine(Thing("lab-a", dead(), State=health))
    source.logs = lambda tail, since=None: b"[ERROR] unknown variable 'x'\n"
    error = why(lab, "dependency failed to start")

    assert "source did not become healthy (running; not replicating)" in error.found
    assert "[ERROR] unknown variable 'x'" in error.found


def test_any_other_failure_shows_the_end_of_what_compose_said(engine, lab):
    """The last lines, and the command that looks at the machine."""
    engine()
    error = why(lab, "pulling\nno such image: replication-lab/mariadb")

    assert "no such image" in error.found and error.next_step == "./lab doctor"


def test_signals_wait_while_a_lab_is_taken_away(interruptible):
    """A second Ctrl-C in the middle of the removal is ignored; afterwards it counts again."""
    with signals.signals_held():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), ZeroDivisionError(), LabError("no")])
def test_a_lab_that_does_not_start_is_taken_away(engine, state, lab, monkeypatch, failure):
    """Interrupted, crashed or refused: containers and the file with the password are gone."""
    started = engine(Thing("lab-a", dead()))

    def fail(*_):
        raise failure

    monkeypatch.setattr(compose.Project, "up", fail)
    with pytest.raises((KeyboardInterrupt, ZeroDivisionError, LabError)):
        project.start(LabRequest(lab.topology, "mariadb", "lab-a"))

    assert started[0].removed
    assert list(state.iterdir()) == []
