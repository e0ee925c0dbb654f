"""The user's own files: topologies, toxics, drills, experiments and workloads in lab/ of the project around them."""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.world import places
from replication_lab.world.line_in_file import placed

# The topmost folder of a project has one of these.
MARKS = ("pyproject.toml", ".git")
TABLE, KEY, DEFAULT = "replication-lab", "path", "lab"
# The folders of the lab's own data.
SHIPPED = ("compose", "toxics")
_start: list[Path] = []


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
    return _folder_from(_start[-1] if _start else places.here())


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
    folders = (*(f"{places.DATA}/{each}/" for each in SHIPPED), f"{places.PACKAGE}/")
    return str(path).startswith(folders)


def origin(path: Path) -> str:
    """Return where a file is from: `shipped` with the lab, or the path of a file of the user's own."""
    return "shipped" if is_shipped(path) else shown(path)


def file_of(path: Path) -> str:
    """Return what an error about a file of the user's calls it; empty for a shipped one, which has its usual name."""
    return "" if is_shipped(path) else shown(path)


def shown(path: Path) -> str:
    """Return a path as a message names it: from the current folder if it is there."""
    here = places.here()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
