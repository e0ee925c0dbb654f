"""Do forked processes run each test once, and is everything that happens in them reported?"""

import os
import subprocess
import sys

import pytest
from replication_lab.world import catalogue

# Two such files can only be run by two processes at the same time: each waits at the pipe for the other.
TESTS = """
import os, warnings
import pytest

MAIN = os.getpid()


def test_meets():
    with open("pipe", "{mode}") as pipe:
        assert pipe.{act} is not None


def test_says():
    print("said by", "{mode}")
    warnings.warn("warned by {mode}")
    assert 1 == 2


@pytest.mark.skip(reason="skipped in {mode}")
def test_is_skipped():
    pass


def test_dies_where_it_is_forked():
    assert os.getpid() == MAIN or os.kill(os.getpid(), 9)
"""
MODES = {"w": "write('met')", "r": "read()"}


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> tuple[int, str]:
    """Run the two files in two processes: (exit status, what pytest prints)."""
    folder = tmp_path_factory.mktemp("forks")
    os.mkfifo(folder / "pipe")
    for mode, act in MODES.items():
        (folder / f"test_{mode}.py").write_text(TESTS.format(mode=mode, act=act))
    options = ["-p", "tests.forks", "--processes", "2", "-rs", "-p", "no:anyio", "-p", "no:cacheprovider"]
    told = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(catalogue.ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return told.returncode, told.stdout


def test_every_outcome_is_reported_by_the_process_that_prints(ended):
    """Failures with what the test printed, skipped tests with their reason, and warnings, of both processes."""
    status, said = ended

    assert status == 1
    assert "2 failed, 3 passed, 2 skipped, 2 warnings" in said
    assert [mode for mode in MODES for kind in ("said", "warned") if f"{kind} by {mode}" not in said] == []
    assert "skipped in w" in said and "skipped in r" in said


def test_a_process_that_dies_is_named(ended):
    """What it reported before counts, and its last test is not taken as passed."""
    assert "a process of the tests ended with status -9: some of its tests may not have run" in ended[1]
