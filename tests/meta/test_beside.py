"""Is a test that failed beside others red when it fails alone too, and green, but named, when it passes?"""

import os
import subprocess
import sys

from replication_lab.world import catalogue

OTHERS = "def test_of_another_file():\n    pass\n"
FAILS = "def test_waits_too_long():\n    raise TimeoutError('patience ended')\n"
# The processes of pytest-xdist have a number; the one that runs alone has none.
FAILS_BESIDE = FAILS.replace("raise", "if 'PYTEST_XDIST_WORKER' in __import__('os').environ: raise")


def ended(folder, text):
    """Run a project of two files as `make test` runs those beside each other."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = alone: of this test's project\n")
    (folder / "test_others.py").write_text(OTHERS)
    (folder / "test_one.py").write_text(text)
    paths = os.pathsep.join([str(catalogue.ROOT), str(catalogue.ROOT / "harness")])
    # This test may itself run in a process of pytest-xdist.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", "tests.beside", str(folder), "--rootdir", str(folder)],
        cwd=folder,
        env={**inherited, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_fails_alone_too_is_red(tmp_path):
    """A broken test is never green by running it twice."""
    run = ended(tmp_path, FAILS)

    assert run.returncode == 1
    assert run.stdout.count("TimeoutError: patience ended") >= 2


def test_what_passes_alone_is_green_and_named_with_its_failure(tmp_path):
    """Only what failed runs again."""
    run = ended(tmp_path, FAILS_BESIDE)
    again = run.stdout.partition("runs once more, alone")[2]

    assert run.returncode == 0, run.stdout
    assert "patience ended" in run.stdout
    assert "PASSED test_one.py::test_waits_too_long" in again
    assert "test_of_another_file" not in again


def test_nothing_runs_twice_where_nothing_failed(tmp_path):
    """A green run says nothing of accidents."""
    run = ended(tmp_path, OTHERS)

    assert run.returncode == 0, run.stdout
    assert "once more" not in run.stdout
