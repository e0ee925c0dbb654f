"""Is an owner thought dead only if that can be seen: here, since this boot, as this user, whatever the clock says?"""

import os
import subprocess
import sys
from contextlib import contextmanager

import psutil
import pytest
from msgspec import structs
from replication_lab.lab import down as removal
from replication_lab.lab import up
from replication_lab.world import lab_files, owners
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import leftovers, machine, project

from tests.fakes.docker_engine import Holding, Thing
from tests.fakes.owners import dead, mark

OLD = "1-1795901026.97@/somewhere/runs/labs"
# It prints its mark, and runs until its input ends.
OWNER = "import sys; from replication_lab.world import owners; print(owners.owner(), flush=True); sys.stdin.read()"
ELSEWHERE = {
    "another machine": {"machine": "f" * 32, "boot": "another"},
    "another machine of the same name": {"machine": "f" * 32, "boot": "another", "host": "x"},
    "another namespace": {"namespace": "4026539999"},
    "an unknown namespace": {"namespace": "unknown"},
    "an unknown boot": {"boot": "unknown"},
    "an unknown machine": {"machine": "unknown", "boot": "another"},
    "a clone of this machine": {"host": "clone", "boot": "another"},
    "a container of that image, elsewhere": {"namespace": "4026539999", "boot": "another"},
    "another user": {"user": "4711"},
}


@pytest.fixture(autouse=True)
def asked_anew():
    """Let no other test see what this process is within one of these tests."""
    yield
    owners._by_process.cache_clear()


@pytest.fixture
def engine(monkeypatch, tmp_path):
    """Put things into a fake engine; this checkout has a folder of its own for the files of labs."""

    def holds(*things):
        monkeypatch.setattr(docker_engine, "client", lambda: Holding(things))
        return things

    monkeypatch.setattr(lab_files, "FOLDER", tmp_path)
    monkeypatch.setattr(removal.array, "sweep", lambda _kept: [])
    monkeypatch.setattr(removal.revisions, "unused", lambda _in_use: [])
    return holds


def told(act, *arguments):
    lines = []
    act(*arguments, lines.append)
    return "\n".join(lines)


# --- what is seen -----------------------------------------------------------------------------------------------------


def test_this_process_is_alive_and_a_reused_number_is_dead():
    """An owner is a number and a start: the same number with another start is another process."""
    assert owners.is_alive(owners.owner()) and not owners.is_dead(owners.owner())
    assert not owners.is_alive(mark(since="1")) and owners.is_dead(mark(since="1"))
    assert owners.is_dead(dead())


@pytest.mark.parametrize("text", ["", "compose", "123", "-", "x-y", OLD, "user=0", "user=,process=@", "x" * (1 << 20)])
def test_a_mark_that_is_no_owner_is_neither_alive_nor_dead(text):
    """Whatever a label holds, it is never an error; also the mark of an earlier version, whose clock may have moved."""
    assert not owners.is_alive(text) and not owners.is_dead(text)


@pytest.mark.parametrize("seconds", [-86_400, -61, 61, 86_400])
def test_a_step_of_the_clock_kills_nobody(monkeypatch, seconds):
    """The kernel's time of boot moves with the clock; ticks since boot do not."""
    before, boot_time = owners.owner(), psutil.boot_time()
    monkeypatch.setattr("psutil._psplatform.boot_time", lambda: boot_time + seconds)
    owners._by_process.cache_clear()

    assert owners.owner() == before and owners.is_alive(before)


@pytest.mark.parametrize("seconds", [-61, 61])
def test_without_proc_a_step_of_the_clock_kills_nobody_either(monkeypatch, seconds):
    """As on macOS: psutil adds the steps since its import to a start, and so does the time of boot."""
    began, process, booted = 1_700_000_000.25, psutil.Process, psutil.boot_time()
    monkeypatch.setattr(owners, "_has_proc", lambda: False)
    monkeypatch.setattr(process, "create_time", lambda _self: began)
    before = owners.start_of(os.getpid())
    monkeypatch.setattr(process, "create_time", lambda _self: began + seconds)
    monkeypatch.setattr(psutil, "boot_time", lambda: booted + seconds)

    assert owners.start_of(os.getpid()) == before == "1700000000250"


def test_a_process_that_has_ended_and_is_not_waited_for_has_ended():
    """In a container nobody may wait for it: its number stays taken."""
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as child:
        # Its output ends with it; then it is a zombie until it is waited for.
        child.stdout.read()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

        assert owners.start_of(child.pid) is None and psutil.pid_exists(child.pid)


@pytest.mark.parametrize(("namespace", "known"), [("4026531836", True), ("4026539999", False)])
def test_after_a_reboot_all_owners_of_this_machine_are_dead(monkeypatch, namespace, known):
    """Only where the machine itself boots: a container's machine is what its image says."""
    monkeypatch.setattr(owners, "_namespace", lambda _process: namespace)
    owners._by_process.cache_clear()

    assert owners.is_dead(mark(boot="another")) == known and not owners.is_alive(mark(boot="another"))


@pytest.mark.parametrize(
    ("system", "endpoint", "elsewhere", "known"),
    [
        ("Debian", "", "", True),
        ("Docker Desktop", "unix:///desktop.sock", "a virtual machine", True),
        ("Debian", "tcp://far.example:2376", "DOCKER_HOST leads to tcp://far.example:2376", False),
        ("Debian", "", "the engine's kernel is another", False),
    ],
)
def test_a_clone_of_this_machine_at_a_shared_engine_is_not_this_machine_rebooted(
    engine, monkeypatch, system, endpoint, elsewhere, known
):
    """Runners of one image have the same ID, name and folder; only the boot is another, and so it is after a reboot."""
    here = structs.replace(machine.facts(), system=system, elsewhere=elsewhere)
    monkeypatch.setattr(machine, "facts", lambda: here)
    monkeypatch.setenv("DOCKER_HOST", endpoint)
    monkeypatch.setattr(owners, "_namespace", lambda _process: "4026531836")
    owners._by_process.cache_clear()
    (thing,) = engine(Thing("lab-x", mark(boot="another")))

    assert leftovers.sweep() == (["lab-x"] if known else []) and thing.removed == known


@pytest.mark.parametrize("what", ELSEWHERE)
def test_an_owner_that_cannot_be_seen_is_neither_alive_nor_dead(engine, what):
    """Its lab is not swept and not cleaned, but shown with a reason."""
    owner = dead(**ELSEWHERE[what])
    (thing,) = engine(Thing("lab-x", owner))

    assert not owners.is_dead(owner) and leftovers.left_behind() == []
    assert leftovers.sweep() == [] and removal.clean(False, lambda _line: None) == [] and not thing.removed
    assert project.others()["lab-x"].startswith("of ")


# --- what is done -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "owner", [OLD, "compose", lambda: dead(machine="f" * 32, boot="another"), lambda: dead(namespace="4026539999")]
)
def test_what_is_not_known_to_be_dead_is_removed_by_its_name_only(engine, owner):
    """Without a name it is named; of an earlier version, of Compose alone, of another machine or container."""
    (thing,) = engine(Thing("lab-x", owner if isinstance(owner, str) else owner()))

    assert "removed by name only: lab-x (" in told(removal.down, None) and not thing.removed
    assert "left lab-x: " in told(removal.clean, False) and not thing.removed
    assert "lab-x is stopped" in told(removal.down, "lab-x") and thing.removed


def test_another_checkouts_lab_is_removed_by_its_name_only(engine):
    """Its folder is compared and never opened: whether it was saved there is not known here."""
    (thing,) = engine(Thing("lab-x", dead(folder="/another/runs/labs")))

    assert leftovers.sweep() == [] and "left lab-x: of another checkout" in told(removal.clean, False)
    assert "lab-x is stopped" in told(removal.down, "lab-x") and thing.removed


@pytest.mark.parametrize("act", [lambda: removal.down("lab-x"), lambda: up.refuse_in_use(project.find("lab-x"))])
def test_another_users_lab_is_not_removed_by_its_name_either(engine, refused, act):
    """Also if its process has ended; root acts as that user."""
    (thing,) = engine(Thing("lab-x", dead(user="4711")))
    error = refused(act)

    assert error.found == "lab-x is a lab of user 4711" and "sudo -u '#4711' ./lab down" in error.next_step
    assert not thing.removed


def test_another_users_lab_is_never_the_only_one(engine, refused):
    """A command without a name acts on this user's labs only."""
    engine(Thing("lab-x", dead(user="4711")), Thing("lab-y", dead()))

    assert project.find().name == "lab-y"
    engine(Thing("lab-x", dead(user="4711")))
    assert refused(project.find).found == "no lab is running"


def test_what_is_of_no_topology_of_this_checkout_is_removed_by_its_name(engine):
    """Another version's topology, or networks and volumes only."""
    network, other = engine(
        Thing("n", dead(folder="/x"), kind="network"), Thing("o", OLD, labels={"replication-lab.engine": "none-such"})
    )

    assert "n is stopped" in told(removal.down, "n") and network.removed
    assert "o is stopped" in told(removal.down, "o") and other.removed


# --- another namespace, for real --------------------------------------------------------------------------------------


@contextmanager
def in_another_namespace(*options):
    """Run an owner in another namespace of process numbers; give its mark."""
    unshare = ["unshare", *(() if os.getuid() == 0 else ("--user", "--map-current-user")), "--pid", "--fork", *options]
    command = [*unshare, sys.executable, "-c", OWNER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if not (found := process.stdout.readline().strip()):
            pytest.skip("this machine lets nobody make a namespace")
        yield found
        process.stdin.close()


@pytest.mark.whole
@pytest.mark.parametrize("options", [["--mount-proc"], []])
def test_an_owner_in_another_namespace_is_not_dead(engine, options):
    """Two jobs in containers that share an engine's socket; without --mount-proc /proc shows other processes."""
    with in_another_namespace(*options) as other:
        found = owners.parsed(other)
        assert found.user == str(os.getuid()) and found.namespace != owners.parsed(mark()).namespace
        (thing,) = engine(Thing("lab-x", mark(**vars(found) | {"folder": owners.parsed(mark()).folder})))

        assert leftovers.sweep() == [] and not thing.removed
    assert leftovers.sweep() == [] and not thing.removed
