"""Does a command say in words what is wrong with the place in which it runs, or work there?"""

import os
import subprocess
import sys

import pytest
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.world import catalogue, folders, lock, own

from tests.unit.synthetic_runs import tiny

LAB = [sys.executable, "-m", "replication_lab"]


def typed(*words, shell="exec", **changed):
    """Type a command in a shell that does something first; a variable that is None is unset."""
    kept = {name: value for name, value in {**os.environ, **changed}.items() if value is not None}
    return subprocess.run(
        ["sh", "-c", f'{shell} "$@"', "sh", *LAB, *words], capture_output=True, text=True, check=False, env=kept
    )


@pytest.mark.whole
@pytest.mark.parametrize("words", [("list",), ("report", "latest"), ("drill", "mine.yaml"), ("up", "single")])
def test_a_folder_that_was_deleted_is_named(tmp_path, words):
    """Before anything starts."""
    gone = tmp_path / "gone"
    gone.mkdir()
    ended = typed(*words, shell=f"cd '{gone}'; rmdir '{gone}'; exec")

    assert ended.returncode == 2
    assert ended.stderr == (
        "error: the current folder was deleted\nexpected: a folder that exists\nnext: cd, then the same command\n"
    )


def test_a_folder_that_is_deleted_meanwhile_ends_no_run(tmp_path, monkeypatch):
    """The user's own files are searched where they were, and paths are shown from there."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    assert folders.here() == gone
    gone.rmdir()

    assert own.folder() is None
    assert own.shown(tmp_path / "a") == str(tmp_path / "a")
    assert folders.from_here(tmp_path / "runs") == "../runs"


@pytest.mark.whole
@pytest.mark.parametrize("words", [("list",), ("--help",), ("run", "semisync_wan", "--help"), ("history",)])
@pytest.mark.parametrize("changed", [{"HOME": None}, {"HOME": "/nowhere", "TMPDIR": "/nowhere"}], ids=str)
def test_a_command_needs_no_home_and_no_folder_for_temporary_files(words, changed):
    """As a service or in a container."""
    ended = typed(*words, **changed)

    assert ended.returncode in (0, 2) and "Traceback" not in ended.stderr


@pytest.fixture(params=["a file in its place", "a file system that is read-only"])
def unwritable(request, tmp_path, monkeypatch):
    """Return the folder runs/ at a place where nothing can be made, whoever asks."""
    place = tmp_path / "place"
    if request.param.startswith("a file in"):
        place.write_text("")
    else:
        place.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", place], check=False).returncode:
            pytest.skip("only root can make a file system of its own")
        request.addfinalizer(lambda: subprocess.run(["umount", "--lazy", place], check=True))
    monkeypatch.setattr(catalogue, "RUNS", place / "runs")
    monkeypatch.setattr(lock, "FOLDER", place / "runs" / "locks")
    return place / "runs"


def test_a_folder_of_runs_that_cannot_be_made_is_one_error_before_anything_starts(unwritable, fake_world, refused):
    """With its path; no lab was up."""
    from replication_lab import runs

    world = fake_world()
    found = refused(lambda: runs.run(RunRequest(tiny(), ["mariadb"], "quick", 7), print, world))

    assert found.found.startswith(f"{unwritable.parent}") and "cannot be written: " in found.found
    assert world.came_up == []


def test_a_lock_that_cannot_be_made_is_one_error(unwritable, refused):
    """A command holds one while it builds images, or starts an engine."""
    assert "cannot be written: " in refused(lambda: lock.held("a").__enter__()).found
