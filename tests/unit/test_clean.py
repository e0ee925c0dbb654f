"""Does `lab clean` remove only what is named, and does a terminal see it first?"""

from contextlib import contextmanager
from pathlib import Path

import pytest
from replication_lab.cli import console
from replication_lab.lab import down as removal
from replication_lab.world import lab_files, lock
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import images

from tests.fakes.docker_engine import Holding, Thing
from tests.fakes.owners import dead, mark

TESTS = Path(__file__).parents[1]


@pytest.fixture
def things(tmp_path, monkeypatch):
    """Return two labs that are to stay up and one of a command that runs, by name, in a fake engine."""
    monkeypatch.setattr(lock, "FOLDER", tmp_path / "locks")
    monkeypatch.setattr(lab_files, "FOLDER", tmp_path)
    monkeypatch.setattr(images, "all_tags", list)
    for what in ("left_in_dev", "sweep"):
        monkeypatch.setattr(removal.array, what, lambda _kept: [])
    monkeypatch.setattr(removal.revisions, "unused", lambda _in_use: [])
    found = {"lab-a": Thing("lab-a", dead()), "lab-b": Thing("lab-b", dead()), "lab-c": Thing("lab-c", mark())}
    for name in ("lab-a", "lab-b"):
        (tmp_path / f"{name}.json").write_text("{}")
    monkeypatch.setattr(docker_engine, "client", lambda: Holding(list(found.values())))
    return found


def removed(things):
    return [name for name, each in things.items() if each.removed]


def test_of_the_labs_only_the_named_one_is_removed(lab, things):
    """Without a name all that no command uses."""
    assert lab("clean", "lab-a")[0] == 0 and removed(things) == ["lab-a"]
    assert lab("clean")[0] == 0 and removed(things) == ["lab-a", "lab-b"]


def test_a_name_of_no_lab_is_refused_before_anything_is_removed(lab, things):
    """A typo must not end in the removal of the others."""
    status, _, said = lab("clean", "lab-a", "lab-x")

    assert status == 2 and "unknown lab of this checkout 'lab-x'" in said
    assert removed(things) == []


def test_a_volume_that_a_removal_left_is_removed_by_the_labs_name(lab, things):
    """`lab down` fails at a volume that a container of others uses; the lab's containers are gone by then."""
    things["lab-d"] = Thing("lab-d", dead(), kind="volume")
    (lab_files.FOLDER / "lab-d.json").write_text("{}")

    assert "lab-d" in lab("clean", "--dry-run")[1]
    assert lab("clean", "lab-d")[0] == 0 and removed(things) == ["lab-d"]


def test_a_volume_of_another_checkout_or_of_a_lab_that_starts_is_no_remains(lab, things):
    """Its first command may be making its containers."""
    things["lab-d"] = Thing("lab-d", mark(), kind="volume")
    things["lab-e"] = Thing("lab-e", dead(folder="/another"), kind="volume")
    (lab_files.FOLDER / "lab-d.json").write_text("{}")

    assert lab("clean")[0] == 0 and removed(things) == ["lab-a", "lab-b"]


@pytest.mark.parametrize(
    ("answer", "options", "gone"), [(False, [], []), (True, [], ["lab-a"]), (False, ["--yes"], ["lab-a"])]
)
def test_a_terminal_sees_what_would_be_removed_and_is_asked(lab, things, monkeypatch, answer, options, gone):
    """Anything but y removes nothing."""
    monkeypatch.setattr(console.click, "confirm", lambda *_, **__: answer)
    status, _, said = lab("clean", "lab-a", *options)

    assert removed(things) == gone and status == (0 if gone else 2)
    assert options or "would be removed:\n  lab-a" in said


@pytest.mark.parametrize("typed", [("clean", "lab-a"), ("down", "--lab", "lab-a")])
def test_without_a_terminal_nothing_is_removed_unless_yes_says_so(lab, things, monkeypatch, typed):
    """A pipeline that means it has to type it; the error has the command."""
    monkeypatch.setattr(console, "at_terminal", lambda: False)
    status, _, said = lab(*typed)

    assert status == 2 and "there is no terminal to confirm it" in said and "lab-a --yes" in said
    assert removed(things) == []
    assert lab(*typed, "-y")[0] == 0 and removed(things) == ["lab-a"]


def test_a_lab_that_is_stopped_is_asked_for_at_a_terminal(lab, things, monkeypatch):
    """Its data go with it."""
    monkeypatch.setattr(console.click, "confirm", lambda *_, **__: False)

    assert lab("down", "--lab", "lab-a")[0] == 2 and removed(things) == []


def test_only_what_was_shown_is_removed(lab, things, monkeypatch):
    """While the question waits for its answer, another `lab up` ends: its lab was not shown."""

    def answered(*_, **__):
        things["lab-d"] = Thing("lab-d", dead())
        (lab_files.FOLDER / "lab-d.json").write_text("{}")
        return True

    monkeypatch.setattr(console.click, "confirm", answered)
    status, _, said = lab("clean")

    assert status == 0 and "lab-d" not in said and removed(things) == ["lab-a", "lab-b"]


def test_nothing_shown_means_that_no_lab_is_removed(lab, things, monkeypatch):
    """Not even one that has become idle between the two looks."""
    things.clear()
    looked = removal.removable

    def then_idle(*arguments):
        found = looked(*arguments)
        things["lab-d"] = Thing("lab-d", dead())
        (lab_files.FOLDER / "lab-d.json").write_text("{}")
        return found

    monkeypatch.setattr(removal, "removable", then_idle)

    assert lab("clean")[0] == 0 and removed(things) == []


def test_a_lab_that_is_used_once_its_name_is_held_stays(things, monkeypatch):
    """Another command has removed it and started one of that name, after it was looked for."""
    free = removal.lock.lab_if_free

    @contextmanager
    def later(name, doing):
        things[name] = Thing(name, mark())
        with free(name, doing) as by:
            yield by

    monkeypatch.setattr(removal.lock, "lab_if_free", later)

    assert removal.clean(False, lambda _line: None, ["lab-a"]) == [] and removed(things) == []


def test_no_test_removes_labs_without_naming_them():
    """A lab that is up stays up, whatever tests run beside it."""
    found = [path.name for path in (TESTS / "lab").glob("*.py") if 'command("clean")' in path.read_text()]

    assert found == []
