"""The user's own files: topologies, toxics, drills, experiments and workloads in lab/ of the project around them."""

import importlib
import re
import sys
import tomllib
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

import yaml

from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.world import folders

# The topmost folder of a project has one of these.
MARKS = ("pyproject.toml", ".git")
TABLE, KEY, DEFAULT = "replication-lab", "path", "lab"
# The folders of the lab's own data.
SHIPPED = ("compose", "toxics")
_start: list[Path] = []
# What msgspec and PyYAML say of the place.
PATH = re.compile(r"at `\$([^`]*)`")
STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
UNKNOWN_KEY = re.compile(r"unknown field `([^`]*)`")
MARK, BYTE = re.compile(r"line (\d+)"), re.compile(r"\(byte (\d+)\)")
QUOTED = re.compile(r"['`]([^'`]+)['`]")
# The name under which Python knows the user's folder: `from ..workloads.carts import Carts` works in an experiment.
OWN_PACKAGE = "lab_files"


def line_of(text: str, error: str) -> int:
    """Return the line of `text`, from 1, that an error message is about; 1 if the message names no place in it.

    The message names a path (`$.steps[0].seconds`), a line, a byte, or in quotes a word of the text.
    """
    if path := PATH.search(error):
        key = UNKNOWN_KEY.search(error)
        steps = [int(number) if number else name for name, number in STEP.findall(path[1])]
        return _line_at(text, [*steps, *([key[1]] if key else [])])
    if mark := MARK.search(error):
        return int(mark[1])
    if byte := BYTE.search(error):
        return text.encode()[: int(byte[1])].count(b"\n") + 1
    if key := UNKNOWN_KEY.search(error):
        return _line_at(text, [key[1]])
    words, lines = QUOTED.findall(error), text.splitlines()
    return next((number for word in words for number, line in enumerate(lines, 1) if word in line), 1)


def placed(error: LabError, file: str, text: str) -> LabError:
    """Return the error with the file and the line that it is about, where it names the file or else in front."""
    place = f"{file}:{line_of(text, error.found)}"
    found = error.found.replace(file, place, 1) if file in error.found else f"{place}: {error.found}"
    return LabError(found, error.expected, error.next_step)


def _line_at(text: str, steps: list[str | int]) -> int:
    """Return the line of the value at a path, or of the last part of the path that exists."""
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError:
        return 1
    line = 1
    for step in steps:
        found = _child(node, step)
        if found is None:
            break
        node, line = found[1], found[0].start_mark.line + 1
    return line


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the key and the value of a mapping, or an element twice; None if there is none."""
    if isinstance(node, yaml.MappingNode):
        return next((pair for pair in node.value if pair[0].value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None


@contextmanager
def of_project(start: Path) -> Iterator[None]:
    """Search from this folder upwards within the block, and not from the current one."""
    _start.append(start)
    try:
        yield
    finally:
        _start.pop()


def folder() -> Path | None:
    """Return the folder with the user's own files; None if there is none.

    It is lab/ beside the nearest pyproject.toml or .git, or what pyproject.toml names there:
    [tool.replication-lab] path. A file called lab, as the launcher of this project's checkout, is none.
    """
    return _folder_from(_start[-1] if _start else folders.here())


@cache
def _folder_from(start: Path) -> Path | None:
    around = (start, *start.parents)
    root = next((each for each in around if any((each / mark).exists() for mark in MARKS)), start)
    named = _named(root / "pyproject.toml")
    found = root / (named or DEFAULT)
    if named and not found.is_dir():
        raise LabError(
            f"{root / 'pyproject.toml'}: [tool.{TABLE}] {KEY} names {named}, which is not a folder",
            "a folder",
            f"mkdir {found}",
        )
    return found if found.is_dir() else None


def _named(file: Path) -> str:
    """Return the folder that a pyproject.toml names; an empty string if it names none."""
    if not file.is_file():
        return ""
    text = file.read_text()
    try:
        table = tomllib.loads(text).get("tool", {}).get(TABLE, {})
    except tomllib.TOMLDecodeError as error:
        raise placed(LabError(f"no TOML: {error}", "a file that pip can read"), str(file), text) from error
    for key in table:
        if key != KEY:
            raise placed(unknown_name(f"key of [tool.{TABLE}]", key, [KEY]), str(file), text)
    return str(table.get(KEY, ""))


def files(kind: str, *suffixes: str) -> dict[str, Path]:
    """Return the user's files of a kind (toxics, drills/async …) with these suffixes, by name."""
    found = folder()
    paths = sorted((found / kind).iterdir()) if found and (found / kind).is_dir() else []
    return {path.stem: path for path in paths if path.suffix in suffixes and not path.stem.startswith("_")}


@contextmanager
def explained(path: Path) -> Iterator[str]:
    """Yield the text of a file; an error about a file that is not shipped names its path and line."""
    text = path.read_text()
    try:
        yield text
    except LabError as error:
        if is_shipped(path):
            raise
        raise placed(error, shown(path), text) from error


def is_shipped(path: Path) -> bool:
    """Return whether a file is one of the lab's own, and not the user's."""
    # Text is compared: a run asks for each file it reads, and pathlib takes thirty times as long.
    shipped = (*(f"{folders.DATA}/{each}/" for each in SHIPPED), f"{folders.PACKAGE}/")
    return str(path).startswith(shipped)


def origin(path: Path) -> str:
    """Return where a file is from: `shipped` with the lab, or the path of a file of the user's own."""
    return "shipped" if is_shipped(path) else shown(path)


def file_of(path: Path) -> str:
    """Return what an error about a file of the user's calls it; empty for a shipped one, which has its usual name."""
    return "" if is_shipped(path) else shown(path)


def shown(path: Path) -> str:
    """Return a path as a message names it: from the current folder if it is there."""
    here = folders.here()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def module_of(path: Path, expected: str) -> ModuleType:
    """Return the module of a file in lab/KIND/. Raise LabError with file and line for one that cannot be imported."""
    _make_package(path.parents[1])
    try:
        return importlib.import_module(f"{OWN_PACKAGE}.{path.parent.name}.{path.stem}")
    except LabError as error:
        raise LabError(f"{_place(path, error)}: {error.found}", error.expected, error.next_step) from error
    except Exception as error:  # of any type: it is the user's program
        said = error.msg if isinstance(error, SyntaxError) else error
        raise LabError(f"{_place(path, error)}: {type(error).__name__}: {said}", expected) from error


def is_own_module(module: str) -> bool:
    """Return whether a module of this name is in a user's folder."""
    return module.startswith(f"{OWN_PACKAGE}.")


def _make_package(folder: Path) -> None:
    """Make the user's folder a package; forget that of another project."""
    if OWN_PACKAGE in sys.modules and list(sys.modules[OWN_PACKAGE].__path__) == [str(folder)]:
        return
    for name in [each for each in sys.modules if each.partition(".")[0] == OWN_PACKAGE]:
        del sys.modules[name]
    package = ModuleType(OWN_PACKAGE, "The user's own files.")
    package.__path__ = [str(folder)]
    sys.modules[OWN_PACKAGE] = package


def _place(path: Path, error: Exception) -> str:
    """Return FILE:LINE of the user's own file in which an error arose."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown(Path(error.filename))}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if Path(frame.filename).is_relative_to(path.parents[1])]
    return f"{shown(Path(mine[-1].filename))}:{mine[-1].lineno}" if mine else f"{shown(path)}:1"
