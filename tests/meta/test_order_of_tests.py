"""Do files of tests that take long begin first, and are claims skipped on a busy machine, and only there?"""

from pathlib import Path
from types import SimpleNamespace

import pytest
from replication_lab.world import catalogue

from tests.conftest import LONGEST, pytest_collection_modifyitems, skip_if_busy

BUSY = "python3 took 0.98 CPUs"
FILES = (
    "unit/test_drills.py",
    "meta/test_recipes.py",
    "images/test_array.py",
    "lab/test_attach.py",
    "lab/test_galera_drills.py",
)


@pytest.mark.parametrize(
    ("own", "order"),
    [
        ({"workerinput": {}}, ["test_galera_drills", "test_attach", "test_drills", "test_recipes", "test_array"]),
        ({}, ["test_drills", "test_recipes", "test_array", "test_attach", "test_galera_drills"]),
    ],
)
def test_files_that_take_longest_begin_first_in_the_processes_that_run_them(own, order):
    """Those of pytest-xdist do not have its option --dist. In one process the order is not changed."""
    items = [SimpleNamespace(path=Path("tests", file)) for file in FILES]
    pytest_collection_modifyitems(SimpleNamespace(getoption=lambda _name: "all", **own), items)

    assert [item.path.stem for item in items] == order


def test_each_file_that_takes_longest_exists():
    """A name that nothing has would put no file first."""
    folders = [catalogue.ROOT / "tests" / name for name in ("browser", "images", "lab")]

    assert [name for name in LONGEST if not any((folder / f"test_{name}.py").exists() for folder in folders)] == []


def test_claims_are_skipped_on_a_busy_machine_with_the_reason():
    """`make test` names the program that keeps the machine busy."""
    with pytest.raises(pytest.skip.Exception, match=f"needs a quiet machine.*{BUSY}"):
        skip_if_busy(False, lambda: BUSY)


def test_claims_are_judged_on_a_quiet_machine():
    """Nothing is skipped."""
    skip_if_busy(False, str)


def test_claims_that_were_all_asked_for_are_never_skipped():
    """`make claims` does not even ask how busy the machine is."""
    skip_if_busy(True, lambda: pytest.fail("asked"))
