"""Are labs found by label, kept private, and told apart from what a killed command left behind?"""

import os
import signal
import stat
import subprocess
from types import SimpleNamespace

import psutil
import pytest
from docker.errors import NotFound
from replication_lab.lab import up
from replication_lab.model.errors import LabError
from replication_lab.model.lab_request import LabRequest
from replication_lab.model.proof import Proof
from replication_lab.world import catalogue, files, signals
from replication_lab.world.docker import compose, images, labels, leftovers, project
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.dialects import dialects

DEAD = "999999999-1.00"
FOLDER, SEMISYNC = str(catalogue.COMPOSE), catalogue.topology("semisync")


CONFIG = {
    "Env": ["MYSQL_ROOT_PASSWORD=secret=1", "LAB_PASSWORD=secret=2", "LAB_REPLICATOR_PASSWORD=secret=3"],
    "Image": "replication-lab/mariadb",
}


class Thing:
    """A container, network or volume by its labels."""

    def __init__(self, project, owner, service="source", folder=FOLDER, kind="container", engine_="mariadb", **more):
        self.labels = {
            labels.LABEL: owner,
            labels.PROJECT: project,
            labels.SERVICE: service,
            labels.CONFIG_FILES: f"{folder}/semisync.yaml",
            labels.WORKING_DIR: folder,
            **({labels.ENGINE_LABEL: engine_} if service == "source" else {}),
        }
        self.kind, self.ports, self.status, self.removed = kind, {}, "running", False
        self.name = f"{project}-{service}-1"
        self.attrs = {"Labels": self.labels, "Config": CONFIG, "State": {}, **more}

    def remove(self, **options):
        if self.removed:
            raise NotFound("gone")
        self.removed, self.options = True, options


class Engine:
    """A client that knows things; `list` filters by label as the engine does."""

    def __init__(self, things):
        self.things = things
        self.containers, self.networks, self.volumes = (
            Listing(things, kind) for kind in ("container", "network", "volume")
        )


class Listing:
    def __init__(self, things, kind):
        self.things, self.kind = things, kind

    def list(self, all=False, filters=None, ignore_removed=False):
        wanted = filters["label"] if isinstance(filters["label"], list) else [filters["label"]]
        return [
            each
            for each in self.things
            if each.kind == self.kind and not each.removed and all_match(each.labels, wanted)
        ]


def all_match(labels, wanted):
    return all(
        labels.get(key) == value if equals else key in labels
        for key, equals, value in (one.partition("=") for one in wanted)
    )


@pytest.fixture
def engine(monkeypatch):
    """Return a function that puts things into a fake engine."""

    def holds(*things):
        monkeypatch.setattr(docker_engine, "client", lambda: Engine(things))
        return things

    return holds


@pytest.fixture
def state(monkeypatch, tmp_path):
    """Return runs/labs of this test's own, within a checkout of this test's own."""
    monkeypatch.setattr(catalogue, "ROOT", tmp_path)
    monkeypatch.setattr(leftovers, "STATE", tmp_path / "runs" / "labs")
    (tmp_path / "runs" / "labs").mkdir(parents=True)
    return tmp_path / "runs" / "labs"


@pytest.fixture
def lab() -> Lab:
    return Lab("lab-a", SEMISYNC, "mariadb", {"lab": "one", "root": "two", "replicator": "three"})


# --- who owns what ----------------------------------------------------------------------------------------------------


def test_this_process_is_alive_and_a_reused_number_is_not():
    """An owner is a PID and a start time: the same number at another time is another process."""
    mine = leftovers.owner()
    pid, _, started = mine.partition("@")[0].partition("-")

    assert leftovers.is_alive(mine)
    assert not leftovers.is_alive(f"{pid}-{float(started) - 100:.2f}")
    assert not leftovers.is_alive(DEAD)


@pytest.mark.parametrize("mark", ["", "compose", "123", "-", "x-y"])
def test_a_mark_that_is_no_owner_is_not_alive(mark):
    """Whatever a label holds, it is never an error."""
    assert not leftovers.is_alive(mark)


def test_a_process_that_may_not_be_looked_at_is_no_error(monkeypatch):
    """Another user's process may refuse."""

    def refuse(_pid):
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "Process", refuse)
    assert not leftovers.is_alive("1-1.0")


@pytest.mark.parametrize(
    ("owner", "kept", "stale"),
    [(DEAD, False, ["p"]), (DEAD, True, []), ("compose", False, []), ("alive", False, []), ("alive", True, [])],
)
def test_left_behind_is_what_a_dead_process_did_not_keep(engine, state, owner, kept, stale):
    """Owned by the living, kept on purpose or started by Compose alone: none of them is left behind."""
    engine(Thing("p", leftovers.owner() if owner == "alive" else owner, folder=str(catalogue.ROOT / "compose")))
    if kept:
        (state / "p.json").write_text("{}")

    assert leftovers.left_behind() == stale


def test_what_another_checkout_keeps_is_not_left_behind(engine, state, tmp_path):
    """Its state file is looked for in its own folder, not in this one's."""
    other = tmp_path / "other"
    (other / "runs" / "labs").mkdir(parents=True)
    (other / "runs" / "labs" / "p.json").write_text("{}")
    engine(Thing("p", DEAD, folder=str(other / "compose")))

    assert leftovers.left_behind() == []


def test_a_network_alone_is_left_behind_too(engine, state):
    """A process killed before its first container leaves networks and volumes."""
    engine(Thing("n", DEAD, kind="network"), Thing("v", DEAD, kind="volume"))

    assert leftovers.left_behind() == ["n", "v"]


def test_sweeping_takes_the_dead_and_leaves_the_living(engine, state):
    """Containers with their anonymous volumes, networks, volumes and files of the dead only."""
    mine, folder = leftovers.owner(), str(catalogue.ROOT / "compose")
    dead = [Thing("dead", DEAD, kind=kind, folder=folder) for kind in ("container", "network", "volume")]
    living = [Thing("living", mine, kind=kind, folder=folder) for kind in ("container", "network", "volume")]
    engine(*dead, *living)
    for name, owner in (("dead", DEAD), ("living", mine), ("orphan", DEAD)):
        (state / f"{name}.env").write_text(f"LAB_OWNER={owner}\n")

    assert leftovers.sweep() == ["dead"]
    assert [each.removed for each in (*dead, *living)] == [True] * 3 + [False] * 3
    assert dead[0].options == {"force": True, "v": True}
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
    engine(Thing("lab-a", leftovers.owner()), Thing("lab-b", DEAD), Thing("lab-c", "compose"))

    assert [lab.is_in_use() for lab in project.all_labs().values()] == [True, False, False]


def test_what_clean_would_remove_is_listed_and_stays(engine, state, monkeypatch):
    """Leftovers, labs that no running command uses, what arrays left, and images where those are asked for."""
    monkeypatch.setattr(images, "all_tags", lambda: ["replication-lab/load"])
    monkeypatch.setattr(up.array, "left_in_dev", lambda kept: [f"{len(kept)} kept"])
    monkeypatch.setattr(up.revisions, "unused", lambda _in_use: [])
    here = str(state.parents[1] / "compose")
    (state / "lab-b.json").write_text("{}")
    used, kept = Thing("lab-a", leftovers.owner()), Thing("lab-b", DEAD, folder=here)
    things = engine(used, kept, Thing("lab-c", "compose"), Thing("d", DEAD, folder=here))

    assert up.removable(with_images=False) == ["d", "lab-b", "lab-c", "4 kept"]
    assert up.removable(with_images=True) == ["d", "lab-b", "lab-c", "4 kept", "replication-lab/load"]
    assert not any(thing.removed for thing in things)


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
    files.write_whole(lab.env_file, project._environment(lab).encode())

    assert stat.S_IMODE(lab.env_file.stat().st_mode) == 0o600
    assert [path.name for path in state.iterdir()] == ["lab-a.env"]


def test_the_environment_of_a_lab_says_whose_it_is(lab):
    """Project, engine, image in place of its own, password and owner: all that the Compose files ask for."""
    lines = dict(line.split("=", 1) for line in project._environment(lab).splitlines())

    assert lines == {
        "COMPOSE_PROJECT_NAME": "lab-a",
        "ENGINE": "mariadb",
        "LAB_IMAGE": "",
        "LAB_PASSWORD": "one",
        "LAB_ROOT_PASSWORD": "two",
        "LAB_REPLICATOR_PASSWORD": "three",
        "LAB_COMPOSE": FOLDER,
    } | {"LAB_OWNER": leftovers.owner()}


def test_what_a_lab_remembers_reads_back(state, lab):
    """Proofs and toxics survive; a broken file reads as never proved."""
    lab.save_state([Proof("semi-sync is on", "1 replica", True)], {"source-replica": "lan"})
    assert lab.state().proofs == [Proof("semi-sync is on", "1 replica", True)]
    assert lab.state().toxics == {"source-replica": "lan"}
    lab.state_file.write_text("{")

    assert lab.state() is None


def why(lab, stderr):
    return project._why_not_started(lab, subprocess.CalledProcessError(1, "docker", stderr=stderr.encode()))


def test_a_busy_port_is_told(lab):
    """Both wordings of the engine come to the same advice."""
    for said in ("bind: address already in use", "Bind for 127.0.0.1:3306 failed: port is already allocated"):
        error = why(lab, f"Error response from daemon: {said}")
        assert "a host port is taken" in error.found and "LAB_PORT_" in error.next_step


def test_a_node_that_never_got_healthy_shows_its_log(engine, lab):
    """The check's last answer and the container's last lines."""
    health = {"Health": {"Status": "unhealthy", "Log": [{"Output": "not replicating\n"}]}}
    (source,) = engine(Thing("lab-a", DEAD, State=health))
    source.logs = lambda tail: b"[ERROR] unknown variable 'x'\n"
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


@pytest.mark.parametrize(
    "failure", [KeyboardInterrupt(), ZeroDivisionError(), subprocess.CalledProcessError(1, "up", stderr=b"no")]
)
def test_a_lab_that_does_not_start_is_taken_away(engine, state, lab, monkeypatch, failure):
    """Interrupted, crashed or refused: containers and the file with the password are gone."""
    started = engine(Thing("lab-a", DEAD))

    def fail(*_):
        raise failure

    monkeypatch.setattr(compose.Project, "up", fail)
    with pytest.raises((KeyboardInterrupt, ZeroDivisionError, LabError)):
        project.start(LabRequest(lab.topology, "mariadb", "lab-a"))

    assert started[0].removed
    assert list(state.iterdir()) == []
