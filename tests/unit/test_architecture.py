"""Do imports point downward, and does only the world touch the world?"""

import ast
import functools
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from replication_lab.world import catalogue

ROOT = catalogue.ROOT
MODULES = sorted((ROOT / "harness").rglob("*.py"))
PACKAGE = "harness/replication_lab"
# One forbidden line for each contract of pyproject.toml: (module, what it must not say).
SABOTAGE = [
    ("probes/noise.py", "from replication_lab import runner"),
    ("runner/rounds.py", "import subprocess"),
    ("report/wording.py", "from replication_lab.world import catalogue"),
    ("model/statistics.py", "import os"),
]


def lint(folder: Path) -> subprocess.CompletedProcess:
    """Run import-linter over the harness in `folder`, as `make lint` does."""
    program = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(folder / "harness")},
    )


@pytest.fixture
def copy(tmp_path) -> Path:
    """Return a copy of the harness to spoil."""
    shutil.copytree(ROOT / "harness", tmp_path / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_imports_point_downward():
    """Every contract of pyproject.toml is kept; the output names the chain that breaks one."""
    found = lint(ROOT)

    assert found.returncode == 0, found.stdout
    assert "0 broken" in found.stdout


def test_every_contract_can_break(copy):
    """One forbidden import for each contract breaks them all: none of them is asleep."""
    for module, line in SABOTAGE:
        path = copy / PACKAGE / module
        path.write_text(path.read_text() + f"\n{line}\n")
    found = lint(copy)

    assert found.returncode == 1
    assert "0 kept, 4 broken" in found.stdout


def test_a_module_without_a_place_is_noticed(copy):
    """A new module has to be put into the layers of pyproject.toml."""
    (copy / PACKAGE / "stray.py").write_text("")

    assert lint(copy).returncode == 1


# What no call may be named or be given.
WORDS = re.compile("sleep|system|shell")


@dataclass(frozen=True)
class Said:
    """What the tests below ask of a module: its dotted names, called and mentioned at all, and its calls' keywords."""

    calls: set[str]
    mentions: set[str]
    keywords: set[str | None]
    docstring: bool
    empty: bool
    tests_without_docstring: list[str]


@functools.cache
def said(path: Path) -> Said:
    """Return the contents of a module, read once for all tests.

    Its syntax tree is not kept, since the garbage collector would walk through it.
    """
    text = path.read_text()
    tree = ast.parse(text)
    # Most modules hold no word that is looked for, and need no walk through every expression.
    nodes = list(ast.walk(tree)) if path.name.startswith("test_") or WORDS.search(text) else []
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    tests = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return Said(
        calls={dotted(node.func) for node in calls},
        mentions={dotted(node) for node in nodes if isinstance(node, ast.Attribute)},
        keywords={word.arg for node in calls for word in node.keywords},
        docstring=bool(ast.get_docstring(tree)),
        empty=not tree.body,
        tests_without_docstring=[node.name for node in tests if not ast.get_docstring(node)],
    )


def dotted(node: ast.expr) -> str:
    """Return the name of what is called or mentioned; a question mark if it has none, as the result of a call."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_only_the_clock_sleeps(path):
    """Everything waits on conditions, by clock.wait_until."""
    if path.name == "clock.py":
        assert "time.sleep" in said(path).mentions
    else:
        assert not {name for name in said(path).mentions | said(path).calls if name.rpartition(".")[2] == "sleep"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_command_goes_through_a_shell(path):
    """Commands are lists of words, so that no name can become a command."""
    assert "os.system" not in said(path).calls
    assert "shell" not in said(path).keywords


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_module_says_what_it_is(path):
    """A docstring at the head of each module that holds anything."""
    assert said(path).docstring or said(path).empty


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=lambda path: path.stem)
def test_every_test_says_what_it_tests(path):
    """Each test function has one sentence."""
    assert not said(path).tests_without_docstring


def test_no_file_is_too_long_to_be_read_at_once():
    """At most 400 lines in each, tests included: a longer one is split by subject."""
    lines = {path: path.read_text().count("\n") for path in (*MODULES, *(ROOT / "tests").rglob("*.py"))}

    assert not {path.relative_to(ROOT).as_posix(): count for path, count in lines.items() if count > 400}


def test_shell_scripts_are_found_by_their_first_line(tmp_path):
    """`make lint` checks each, the new ones too, whatever they are called; and nothing that only mentions a shell."""
    files = {
        "plain": "#!/bin/sh",
        "folder/by-name.sh": "#!/usr/bin/env bash",
        "with-options": "#!/bin/sh -eu",
        "program.py": "#!/usr/bin/env python3",
        "page.md": "Type:\n#!/bin/sh",
        "ignored": "#!/bin/sh",
        ".gitignore": "ignored",
    }
    (tmp_path / "folder").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    found = subprocess.run([ROOT / ".ci" / "shell-scripts"], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert set(found.stdout.splitlines()) == {"plain", "folder/by-name.sh", "with-options"}
