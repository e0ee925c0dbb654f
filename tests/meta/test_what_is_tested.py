"""Does `make test` start and break every topology, and does it run the sabotage of every proof?"""

import ast
import re
from functools import cache

import pytest
from replication_lab import experiments
from replication_lab.world import catalogue

LAB_TESTS = catalogue.ROOT / "tests" / "lab"
PAGE = (catalogue.ROOT / "docs" / "architecture.md").read_text().partition("## What `make test` covers")[2]
SECTION = PAGE.partition("\n## ")[0]
ROWS = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in re.findall(r"^\| .*\|$", SECTION, re.M)]
TOPOLOGIES = {row[0]: row for row in ROWS if row[0] in catalogue.topologies()}
TESTS = sorted(set(re.findall(r"`(test_\w+)::(test_\w+)`", SECTION)))
DRILLS = re.findall(r"`test_drills`: (\S+) (\S+)", SECTION)


@cache
def module(name: str) -> ast.Module:
    return ast.parse((LAB_TESTS / f"{name}.py").read_text())


def is_long(marks: list[ast.expr]) -> bool:
    return any(ast.unparse(mark) == "pytest.mark.long" for mark in marks)


def run_by_make_test(file: str) -> set[str]:
    """Return the test functions of a file that are not marked long."""
    found = module(file)
    of_all = [ast.unparse(node) for node in found.body if isinstance(node, ast.Assign)]
    if any(text.startswith("pytestmark") and "mark.long" in text for text in of_all):
        return set()
    functions = [node for node in found.body if isinstance(node, ast.FunctionDef)]
    return {function.name for function in functions if not is_long(function.decorator_list)}


def test_every_topology_has_its_row():
    """Each file in compose/ is started and broken by a test that its row names."""
    assert list(TOPOLOGIES) and set(TOPOLOGIES) == set(catalogue.topologies())
    assert [name for name, row in TOPOLOGIES.items() if "`test_" not in row[1]] == []


@pytest.mark.parametrize(("file", "test"), TESTS)
def test_make_test_runs_what_the_table_names(file, test):
    """It exists, and is not marked long."""
    assert test in run_by_make_test(file)


def test_make_test_runs_the_drills_that_the_table_names():
    """Each is in the list QUICK of tests/lab/test_drills.py, which is not marked long, and in its topology's row."""
    quick = next(
        node.value
        for node in module("test_drills").body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "QUICK"
    )
    text = ast.unparse(quick)

    assert DRILLS and "mark.long" not in text
    assert [pair for pair in DRILLS if f"'{pair[0]}', '{pair[1]}'" not in text] == []
    assert [pair for pair in DRILLS if " ".join(pair) not in TOPOLOGIES[pair[0]][1]] == []


def test_the_experiments_of_the_table_exist_with_their_presets():
    """Each is an experiment on that row's topology, and has the preset."""
    named = [(name, *pair) for name, row in TOPOLOGIES.items() for pair in re.findall(r"`(\w+)` \((\w+)\)", row[2])]

    assert {experiment for _, experiment, _ in named} == {
        "galera_vs_semisync",
        "raid_replica",
        "semisync_wan",
        "temporary_tables",
    }
    for topology, experiment, preset in named:
        known = experiments.load(experiment)
        assert topology in {lab.topology for lab in known.labs(known.preset(preset), "mariadb")}


def test_each_file_of_unit_tests_is_in_one_of_the_two_processes():
    """Each of the Makefile's two patterns leaves out some of them, and no file is left out by both or by none."""
    patterns = re.findall(r"\$\(SHORT\) --ignore-glob='\*/(\S+)'", (catalogue.ROOT / "Makefile").read_text())
    folder = catalogue.ROOT / "tests" / "unit"
    first, second = (sorted(folder.glob(pattern)) for pattern in patterns)

    assert first and second
    assert sorted(first + second) == sorted(folder.glob("test_*.py"))


def test_make_test_runs_the_tests_of_the_repository_once():
    """They are not among the short unit tests; the line that runs the others names their folder."""
    lines = re.findall(r"^(\w+) = .*tests/meta.*$", (catalogue.ROOT / "Makefile").read_text(), re.M)

    assert lines == ["WHOLE"]
