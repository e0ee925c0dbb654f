"""Do imports point downward, and does only the world touch the world?"""

import ast
import functools
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
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
    ("model/core/statistics.py", "import os"),
    ("model/core/verdict.py", "from replication_lab.model.drill import drill"),
    ("cli/lab.py", "import starlette"),
    ("world/packets/netem.py", "from replication_lab.world.docker import project"),
    ("attach/attach.py", "import testcontainers"),
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
    """Return a folder of links to the harness's modules, a few of which a test replaces."""
    for path in MODULES:
        to = tmp_path / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.symlink_to(path)
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
        text = path.read_text()
        path.unlink()
        path.write_text(f"{text}\n{line}\n")
    found = lint(copy)

    assert found.returncode == 1
    assert "0 kept, 8 broken" in found.stdout


def test_a_module_without_a_place_is_noticed(copy):
    """A new module has to be put into the layers of pyproject.toml."""
    (copy / PACKAGE / "stray.py").write_text("")

    assert lint(copy).returncode == 1


# What no call may be named or be given.
WORDS = re.compile(r"\b(?:sleep|system|shell)\b")
TEST = re.compile(r"\bdef test_")
TEST_WITH_DOCSTRING = re.compile(r'\bdef test_\w+\(.*\):\n +"""\w')


@dataclass(frozen=True)
class Said:
    """What the tests below ask of a module: its dotted names, called and mentioned at all, and its calls' keywords."""

    calls: set[str]
    mentions: set[str]
    keywords: set[str | None]
    docstring: bool
    empty: bool


@functools.cache
def said(path: Path) -> Said:
    """Return the contents of a module, read once for all tests.

    Its syntax tree is not kept, since the garbage collector would walk through it.
    """
    text = path.read_text()
    # Most modules begin with a docstring and hold no word that is looked for: they need not be parsed.
    if text.startswith('"""') and not WORDS.search(text):
        return Said(set(), set(), set(), docstring=True, empty=False)
    tree = ast.parse(text)
    nodes = list(ast.walk(tree)) if WORDS.search(text) else []
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return Said(
        calls={dotted(node.func) for node in calls},
        mentions={dotted(node) for node in nodes if isinstance(node, ast.Attribute)},
        keywords={word.arg for node in calls for word in node.keywords},
        docstring=bool(ast.get_docstring(tree)),
        empty=not tree.body,
    )


def dotted(node: ast.expr) -> str:
    """Return the name of what is called or mentioned; a question mark if it has none, as the result of a call."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def named(paths: Iterable[Path]) -> str:
    """Return the paths from the root of the project, a line each: pytest shortens lists, but no text."""
    return "\n".join(path.relative_to(ROOT).as_posix() for path in paths)


def sleeps(path: Path) -> bool:
    return any(name.rpartition(".")[2] == "sleep" for name in said(path).mentions | said(path).calls)


def test_only_the_clock_sleeps():
    """Everything waits on conditions, by clock.wait_until."""
    clock = ROOT / PACKAGE / "world" / "clock.py"
    wrong = [path for path in MODULES if path != clock and sleeps(path)]

    assert "time.sleep" in said(clock).mentions
    assert not wrong, named(wrong)


# Modules whose waits look less often than ten times a second: a look takes much of a guest's only CPU, or would change
# what is measured meanwhile.
RARE = {"world/machines/drbd.py", "world/machines/pacemaker.py", "replication/pacemaker.py"}
RARE |= {"world/disks/array.py", "workloads/catch_up.py"}
# The place of the seconds between two looks among the arguments of each wait.
WAITS = {"wait_until": 3, "wait_while_moving": 2}


def pauses(path: Path) -> Iterator[float]:
    """Yield the seconds between two looks of each wait in a module that gives them."""
    module = ".".join(path.relative_to(ROOT / "harness").with_suffix("").parts)
    for call in ast.walk(ast.parse(path.read_text())):
        name = dotted(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
        if not isinstance(call, ast.Call) or name not in WAITS:
            continue
        given = [word.value for word in call.keywords if word.arg == "every"] or call.args[WAITS[name] :][:1]
        for said in given:
            yield said.value if isinstance(said, ast.Constant) else attrgetter(dotted(said))(import_module(module))


def test_every_wait_looks_ten_times_a_second():
    """So that nothing takes longer than it needs; waits that may not look so often are listed."""
    rare = {path for path in MODULES if path.name != "clock.py" and any(every > 0.1 for every in pauses(path))}

    assert {path.relative_to(ROOT / PACKAGE).as_posix() for path in rare} == RARE


def test_no_command_goes_through_a_shell():
    """Commands are lists of words, so that no name can become a command."""
    wrong = [path for path in MODULES if "os.system" in said(path).calls or "shell" in said(path).keywords]

    assert not wrong, named(wrong)


def test_every_module_says_what_it_is():
    """A docstring at the head of each module that holds anything."""
    silent = [path for path in MODULES if not said(path).docstring and not said(path).empty]

    assert not silent, named(silent)


def written_tests(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """Yield the test functions of a module, also those of its classes."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from written_tests(node.body)
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


def silent_tests(text: str) -> list[str]:
    """Return the test functions of a module that have no docstring."""
    # A module whose every test has one in the line below its name need not be parsed.
    if len(TEST.findall(text)) == len(TEST_WITH_DOCSTRING.findall(text)):
        return []
    return [test.name for test in written_tests(ast.parse(text).body) if not ast.get_docstring(test)]


def test_every_test_says_what_it_tests():
    """Each test function has one sentence."""
    texts = {path: path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    silent = [f"{path.relative_to(ROOT)}::{name}" for path, text in texts.items() for name in silent_tests(text)]

    assert sum(len(TEST.findall(text)) for text in texts.values()) > len(texts)
    assert not silent, "\n".join(silent)


@pytest.mark.parametrize(
    ("text", "silent"),
    [
        ('def test_a():\n    """Say it."""\n', []),
        ("def test_a():\n    assert True\n", ["test_a"]),
        ('def test_a():\n    """Say it."""\n\n\ndef test_b(x):\n    assert x\n', ["test_b"]),
        ('class A:\n    def test_a(self, x=(1, 2)):\n        f"""{x}"""\n', ["test_a"]),
        ('def test_a(\n    x,\n):\n    """Say it."""\n', []),
        ('def test_a():\n    """"""\n', ["test_a"]),
    ],
    ids=["said", "silent", "one of two", "no docstring", "in several lines", "empty"],
)
def test_a_test_that_says_nothing_is_found(text, silent):
    """Wherever it is, and however its parameters are written."""
    assert silent_tests(text) == silent


def test_one_name_is_one_class():
    """A class of the package has a name of its own, so that a name says which one is meant."""
    found = [
        (node.name, path.relative_to(ROOT).as_posix())
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    many = Counter(name for name, _ in found)

    assert not [f"{name} in {path}" for name, path in found if many[name] > 1]


def test_errors_are_printed_in_one_place():
    """So that all of them look alike, and none obeys what is written in it."""
    assert [path.name for path in MODULES if "error:[/]" in path.read_text()] == ["console.py"]


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


def test_the_table_of_rooms_has_every_room():
    """What a room may import is told of each, and of none that is gone."""
    package = ROOT / PACKAGE
    rooms = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    page = (ROOT / "docs" / "architecture.md").read_text().partition("| room | may import |")[2].partition("\n\n")[0]
    told = [name for line in page.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split(" | ")[0])]

    assert sorted(told) == sorted(rooms - {"__init__", "__main__"})
