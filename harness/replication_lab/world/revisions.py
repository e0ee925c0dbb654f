"""Compose files as they were at a revision of their git repository."""

import shutil
import subprocess
import time
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from replication_lab.model.errors import LabError
from replication_lab.world import places
from replication_lab.world.files import private_folder

# The name of a topology at a revision: semisync@1a2b3c….
SEPARATOR = "@"
# Compose files name configurations of the images.
FOLDERS = ("compose", "images")
# A command copies a revision seconds before its labs are seen to use it.
STARTING_SECONDS = 3600


def resolved(text: str, file: Path) -> str:
    """Return the commit that a text such as main, HEAD~3 or a tag names, in the repository of a file."""
    found = _git(file.parent, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}")
    if found.returncode:
        raise LabError(
            f"{text!r} is not a revision of the repository of {file}",
            "a branch, a tag or a commit, and git installed",
            f"git -C {file.parent} log --oneline",
        )
    return found.stdout.decode().strip()


def at(commit: str, file: Path) -> Path:
    """Return a copy of a Compose file, and of the files around it, as they were at a commit."""
    root = Path(_git(file.parent, "rev-parse", "--show-toplevel").stdout.decode().strip())
    inside = file.resolve().relative_to(root)
    copies = _copies() / "-".join([commit, *inside.parent.parts])
    if not copies.is_dir():
        _extract(root, commit, inside, copies)
    if not (copies / inside).is_file():
        raise _missing(inside, commit)
    return copies / inside


def unused(in_use: Iterable[str]) -> list[Path]:
    """Return the copies, whole or interrupted, that none of these Compose files is in and that no command just made."""
    files = [Path(file) for file in in_use]
    return sorted(
        copy
        for copy in (_copies().iterdir() if _copies().is_dir() else ())
        if time.time() - copy.stat().st_mtime > STARTING_SECONDS
        and not any(file.is_relative_to(copy) for file in files)
    )


def remove(copies: list[Path]) -> list[str]:
    """Delete copies of revisions; return how each is named to the user."""
    for copy in copies:
        shutil.rmtree(copy, ignore_errors=True)
    return [shown(copy) for copy in copies]


def shown(copy: Path) -> str:
    return f"the copy {copy.name[:12]} of a revision"


def _copies() -> Path:
    return places.KEPT / "revisions"


def _extract(root: Path, commit: str, inside: Path, copies: Path) -> None:
    found = _git(root, "ls-tree", "--name-only", commit, *FOLDERS, str(inside.parent))
    folders = [name for name in found.stdout.decode().splitlines() if name]
    packed = _git(root, "archive", "--format=zip", commit, *folders, *([str(inside.parent)] if not folders else []))
    if packed.returncode or not packed.stdout:
        raise _missing(inside, commit)
    private_folder(copies.parent)
    # A copy is there as a whole or not at all: another command may make it now, and a lab may use it.
    with TemporaryDirectory(dir=copies.parent) as beside, ZipFile(BytesIO(packed.stdout)) as archive:
        whole = Path(beside) / "whole"
        archive.extractall(whole)
        try:
            whole.rename(copies)
        except OSError:
            if not copies.is_dir():
                raise


def _missing(inside: Path, commit: str) -> LabError:
    return LabError(
        f"{inside} does not exist at {commit[:12]}",
        "a revision that has the topology",
        f"git log --oneline -- {inside}",
    )


def _git(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess([], 1, b"", b"")
