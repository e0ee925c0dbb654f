"""Are two commands that start, change or remove the same lab at once kept apart, and does the second say by whom?"""

import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from replication_lab.attach import attach, override
from replication_lab.lab import disks, up
from replication_lab.lab import down as removal
from replication_lab.lab import status as views
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.world import catalogue, lab_files, lock
from replication_lab.world.docker import attachments, leftovers, project
from replication_lab.world.docker import engine as docker_engine

from tests.fakes.docker_engine import Holding, Thing
from tests.fakes.owners import dead, mark
from tests.unit.attached_projects import attachment

# It holds a lab's name as another command would, until its input ends.
OTHER = """
import sys; from pathlib import Path; from replication_lab.world import lock
lock.FOLDER = Path(sys.argv[1])
with lock.lab_held(sys.argv[2], "lab up async"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path, monkeypatch):
    """Let another process hold the name of a lab: `other(name)`; it ends with the test or by `end()`."""
    monkeypatch.setattr(lock, "FOLDER", tmp_path / "locks")
    monkeypatch.setattr(lab_files, "FOLDER", tmp_path / "labs")
    started = []

    def start(name):
        command = [sys.executable, "-c", OTHER, str(tmp_path / "locks"), name]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return SimpleNamespace(number=process.pid, end=process.communicate, kill=process.kill, wait=process.wait)

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.fixture
def engine(monkeypatch):
    """Put things into a fake engine."""

    def holds(*things):
        monkeypatch.setattr(docker_engine, "client", lambda: Holding(things))
        monkeypatch.setattr(docker_engine, "ensure", lambda: None)
        return things

    monkeypatch.setattr(removal.array, "sweep", lambda _kept: [])
    monkeypatch.setattr(removal.revisions, "unused", lambda _in_use: [])
    return holds


def started(monkeypatch):
    """Return what `lab up` starts, in order."""
    found = []
    monkeypatch.setattr(up, "_up", lambda asked, _storage, _tell: found.append(asked.name))
    return found


ASKED = LabRequest(catalogue.topology("async"), "mariadb", "lab-x")


def test_the_second_up_of_a_name_is_refused_and_says_by_whom(other, engine, monkeypatch, refused):
    """Process number, command and since when; once the first has ended, it starts."""
    engine()
    found = started(monkeypatch)
    first = other("lab-x")
    said = refused(up.up, ASKED, lambda _line: None).found

    assert said.startswith(f"lab-x is in use by `lab up async` (process {first.number}, since 20") and found == []
    first.end("")
    up.up(ASKED, lambda _line: None)
    assert found == ["lab-x"]


def test_another_name_is_not_refused(other, engine, monkeypatch):
    """Two labs start beside each other."""
    engine()
    found = started(monkeypatch)
    other("lab-y")
    up.up(ASKED, lambda _line: None)

    assert found == ["lab-x"]


def test_a_killed_command_holds_no_name(other, engine, monkeypatch):
    """The kernel lets go of it."""
    engine()
    found = started(monkeypatch)
    first = other("lab-x")
    first.kill()
    first.wait()
    up.up(ASKED, lambda _line: None)

    assert found == ["lab-x"]


def test_a_lab_that_another_command_changes_is_not_removed(other, engine, refused):
    """By `down` it is refused, `clean` and the removal of leftovers pass over it."""
    (thing,) = engine(Thing("lab-x", dead()))
    (lab_files.FOLDER).mkdir()
    first = other("lab-x")

    assert leftovers.left_behind() == ["lab-x"]
    assert f"process {first.number}" in refused(removal.down, "lab-x", lambda _line: None).found
    assert removal.clean(False, lambda _line: None) == [] and leftovers.sweep() == []
    assert not thing.removed
    first.end("")
    assert leftovers.sweep() == ["lab-x"] and thing.removed


def test_a_project_is_not_attached_or_detached_by_two(other, engine, monkeypatch, refused):
    """The second one would recreate the consumers under the first."""
    engine()
    monkeypatch.setattr(attach.images, "ensure", lambda _names: None)
    other("shop")
    plan = attach.AttachPlan(attachment(), {}, attachments.KeptAttachment(), [])
    assert "shop is in use by `lab up async`" in refused(attach.attach, plan, "none", lambda _line: None).found

    override.write(attachment(), dead(), attachments.KeptAttachment(), {})
    assert "shop is in use by `lab up async`" in refused(attach.detach, "shop", lambda _line: None).found
    assert attachments.kept("shop")


def let_be_found(monkeypatch, **of_lab):
    """Let lab-x be found, whose servers and disks are not there: what a command asks of them is an error."""
    found = SimpleNamespace(name="lab-x", topology=catalogue.topology("async"), owners=[], is_in_use=lambda: False)
    vars(found).update(of_lab)
    monkeypatch.setattr(project, "find", lambda _name: found)


@pytest.mark.parametrize(
    "command",
    [
        "failover replica",
        "rejoin replica",
        "standby replica",
        "online replica",
        *(f"{verb} replica" for verb in ("stop", "kill", "pause", "start")),
        "link set source-replica 40ms",
        "link set source-replica=none replica-source=1ms",
        "disk limit replica disk1 flush_us=1",
        "disk fail replica disk1",
        "disk corrupt replica disk1 text",
        "disk heal replica disk1",
        "disk replace replica disk1",
        "disk migrate replica --to raid0",
    ],
)
def test_a_lab_is_not_changed_while_another_command_changes_it(other, lab, monkeypatch, command):
    """The error says by which command; nothing was asked of the servers and the disks."""
    let_be_found(monkeypatch)
    first = other("lab-x")
    code, _, said = lab(*command.split(), "--lab", "lab-x")

    assert code == 2 and f"lab-x is in use by `lab up async` (process {first.number}, since" in said


@pytest.mark.parametrize(
    ("command", "looks"), [("disk list", (views, "disks")), ("disk check replica", (disks, "check"))]
)
def test_a_command_that_only_looks_is_not_refused(other, lab, monkeypatch, command, looks):
    """Whatever changes the lab meanwhile."""
    let_be_found(monkeypatch)
    monkeypatch.setattr(*looks, lambda *_: [])
    other("lab-x")

    assert lab(*command.split(), "--lab", "lab-x", "--json") == (0, "[]\n", "")


@pytest.mark.parametrize("command", ["failover replica", "rejoin replica", "standby replica", "online replica"])
@pytest.mark.parametrize(
    ("owner", "found"),
    [
        (lambda: mark(since="2"), "lab-x is in use by another lab command"),
        (lambda: dead(user="4711"), "lab-x is a lab of user 4711"),
    ],
)
def test_the_roles_of_a_lab_that_a_run_measures_are_not_changed(other, lab, monkeypatch, command, owner, found):
    """Nor those of another user's lab."""
    let_be_found(monkeypatch, owners=[owner()], is_in_use=lambda: True)
    code, _, said = lab(*command.split(), "--lab", "lab-x")

    assert code == 2 and found in said


def test_blocks_of_one_process_share_a_lab_until_the_last_ends(other, tmp_path):
    """In each other and in two threads: a command's steps, and clicks on two nodes of a page."""
    second, over = threading.Event(), threading.Event()

    def click():
        with lock.lab_held("lab-x", "lab live"):
            second.set()
            over.wait()

    thread = threading.Thread(target=click)
    with lock.lab_held("lab-x", "lab attach"), lock.lab_held("lab-x", "lab toxic"):
        thread.start()
        assert second.wait(5)
    with lock.lab_if_free("lab-x", "lab clean") as by:
        assert by and by.startswith("`lab attach` ")
    over.set()
    thread.join()
    other("lab-x").end("")

    assert list((tmp_path / "locks").iterdir()) == []


def test_a_killed_attachment_is_not_restored_while_another_command_changes_it(other, engine, monkeypatch):
    """`lab detach` deletes the variables that were kept: restored once more, the consumers would come without them."""
    engine()
    restored = []
    monkeypatch.setattr(attachments, "_restore", lambda attached, _: restored.append(attached.compose.project))
    override.write(attachment(), dead(), attachments.KeptAttachment(), {})
    first = other("shop")
    assert leftovers.sweep() == [] and restored == []

    first.end("")
    assert leftovers.sweep() == ["the attachment of shop"] and restored == ["shop"]


def test_an_attachment_that_another_command_has_made_meanwhile_is_not_restored(other, engine, monkeypatch):
    """It was left behind when it was looked for; since then the project was restored and attached again."""
    engine()
    restored = []
    monkeypatch.setattr(attachments, "_restore", lambda attached, _: restored.append(attached.compose.project))
    override.write(attachment(), dead(), attachments.KeptAttachment(), {})
    found = leftovers._left_attached()
    override.write(attachment(), mark(), attachments.KeptAttachment(), {})
    looked = [found]
    there = leftovers._left_attached
    monkeypatch.setattr(leftovers, "_left_attached", lambda: looked.pop() if looked else there())

    assert leftovers.sweep() == [] and restored == []


def test_nothing_stays_of_a_lock_and_two_never_hold_it(other, tmp_path):
    """Tests start hundreds of labs. A file that its holder has just removed is no lock."""
    with lock.lab_held("lab-x", "lab up"):
        assert (tmp_path / "locks" / "lab-lab-x").exists()
    assert list((tmp_path / "locks").iterdir()) == []

    with lock._opened("lab-lab-x") as late:
        with lock.lab_held("lab-x", "lab up"):
            pass
        assert not os.fstat(late.fileno()).st_nlink
    other("lab-x").end("")
    assert list((tmp_path / "locks").iterdir()) == []
