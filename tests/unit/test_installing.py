"""Is a person asked before this host is changed, is what was added recorded, and is exactly that undone?"""

import io
import subprocess
import sys

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.world import installing
from replication_lab.world.installing import HostChange

from tests.terminal import typed_at_a_terminal

CHANGE = HostChange("a thing", [["true"]], ["thing"], (("/etc/apt/thing", "a source"),), "the engine")
# What a command does in a process of its own, so that it has a terminal of its own.
PROGRAM = """
from replication_lab.world import installing
from replication_lab.model.core.errors import LabError
try:
    apt = (("/etc/apt/thing", "a source"),)
    installing.allow(installing.HostChange("a thing", [["true"]], ["thing"], apt, "the engine"))
    print("ALLOWED")
except LabError as error:
    print("REFUSED", error.found)
"""


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """Put the record and apt's files into a folder of this test's own, where root's power is the user's."""

    def ran(command):
        subprocess.run(command, check=True)

    monkeypatch.setattr(installing, "RECORD", tmp_path / "record" / "added")
    for name in ("TRIXIE_SOURCE", "TRIXIE_PIN"):
        monkeypatch.setattr(installing, name, str(tmp_path / name))
    monkeypatch.setattr(installing, "run_as_root", ran)
    return tmp_path


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (b"\n", "ALLOWED\n"),
        (b"\x04", "REFUSED nothing was changed on this host\n"),
    ],
    ids=["Enter", "Ctrl-D"],
)
def test_a_terminal_lists_the_changes_and_waits(keys, answer):
    """Packages, files of apt and the start of the engine; the end of the input is no agreement."""
    asked, out = typed_at_a_terminal([sys.executable, "-c", PROGRAM], keys)

    assert "  add      /etc/apt/thing (a source)\n  install  thing\n  start    the engine\n" in asked
    assert "lab doctor --undo" in asked
    assert out == answer


@pytest.fixture
def terminal(monkeypatch):
    """Return a function that answers at a terminal."""

    def answers(text):
        monkeypatch.delenv(installing.VARIABLE, raising=False)
        monkeypatch.setattr(installing, "_is_terminal", lambda: True)
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    return answers


@pytest.mark.parametrize(("typed", "allowed"), [("\n", True), ("yes\n", True), ("no\n", False), ("wait\n", False)])
def test_only_enter_and_yes_continue(terminal, typed, allowed):
    """Any other word refuses."""
    terminal(typed)

    assert installing.confirmed() == allowed


def test_what_was_decided_beforehand_is_not_asked(terminal, monkeypatch, capsys):
    """LAB_INSTALL answers for the terminal, too."""
    terminal("")
    monkeypatch.setenv(installing.VARIABLE, "yes")
    installing.allow(CHANGE)
    monkeypatch.setenv(installing.VARIABLE, "no")
    with pytest.raises(LabError, match="missing: a thing"):
        installing.allow(CHANGE)

    assert "Press Enter" not in capsys.readouterr().err


def test_without_a_terminal_only_yes_installs(capsys, monkeypatch):
    """A pipeline has to say so; then it prints what is added and installed, as a terminal is told."""
    monkeypatch.delenv(installing.VARIABLE, raising=False)
    with pytest.raises(LabError, match="there is no terminal") as told:
        installing.allow(CHANGE)
    monkeypatch.setenv(installing.VARIABLE, "yes")
    installing.allow(CHANGE)

    assert CHANGE.lines() and "LAB_INSTALL=yes" in told.value.expected
    assert capsys.readouterr().err == "installing a thing:\n" + "".join(f"  {line}\n" for line in CHANGE.lines())


def test_any_other_answer_beforehand_is_refused(monkeypatch):
    """A misspelt `no` must not install."""
    monkeypatch.setenv(installing.VARIABLE, "never")
    with pytest.raises(LabError, match="LAB_INSTALL=never"):
        installing.allow(CHANGE)


def test_what_is_added_is_recorded_before_it_is_added(kept, monkeypatch):
    """Also if the installation then fails; what was installed already is not recorded, nor anything twice."""
    monkeypatch.setattr(installing, "_is_installed", lambda name: name == "old")
    change = HostChange("things", [["false"]], ["new", "old"], ((installing.TRIXIE_SOURCE, "a source"),))
    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError):
            installing.make(change)

    assert installing.RECORD.read_text() == f"file {installing.TRIXIE_SOURCE}\npackage new\n"


def test_undo_removes_what_was_added_to_apt_and_says_what_stays(kept, monkeypatch, lab):
    """A source of somebody else's in the same folder stays; so do the packages, which are listed."""
    monkeypatch.setattr(installing, "_is_installed", lambda name: name == "new")
    installing.RECORD.parent.mkdir()
    installing.RECORD.write_text(f"file {installing.TRIXIE_SOURCE}\npackage new\npackage gone\n")
    for name in ("TRIXIE_SOURCE", "TRIXIE_PIN", "somebody-elses"):
        (kept / name).touch()
    status, out, err = lab("doctor", "--undo")

    removed = f"removed from apt's configuration: {installing.TRIXIE_SOURCE}, {installing.TRIXIE_PIN}"
    assert (status, out.replace("\n", "")) == (0, removed)
    assert "stays   packages new; to remove them: apt-get remove new" in err
    assert sorted(path.name for path in kept.iterdir()) == ["record", "somebody-elses"]
    assert installing.RECORD.read_text() == "package new\npackage gone\n"
    assert lab("doctor", "--undo")[:2] == (0, "removed from apt's configuration: nothing\n")


def test_undo_asks_a_terminal(kept, monkeypatch, lab):
    """No answer but Enter removes anything."""
    (kept / "TRIXIE_PIN").touch()
    monkeypatch.setattr(installing, "confirmed", lambda: False)

    assert lab("doctor", "--undo")[:2] == (0, "removed from apt's configuration: nothing\n")
    assert (kept / "TRIXIE_PIN").exists()
