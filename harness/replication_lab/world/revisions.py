"""Compose files as they were at a revision of their git repository."""

import shutil
import subprocess
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from replication_lab.model.core.errors import LabError
from replication_lab.world import folders, lock
from replication_lab.world.files import private_folder, writing

# The name of a topology at a revision: semisync@1a2b3c….
SEPARATOR = "@"
# Compose files name configurations of the images.
FOLDERS = ("compose", "images")
# The digits of a commit, with which the name of its copy begins.
DIGITS = 40


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
    top = _git(file.parent, "rev-parse", "--show-toplevel").stdout.decode().strip()
    if not top:
        raise LabError(
            f"{commit[:40]} would be a revision of {file}, which is not in a git repository",
            "a checkout by git, and git installed",
            f"git -C {file.parent} status",
        )
    root = Path(top)
    inside = file.resolve().relative_to(root)
    copies = _copies() / "-".join([commit, *inside.parent.parts])
    # Until this command ends: its labs are not seen to use the copy yet.
    lock.keep_shared(_lock_of(copies))
    if not copies.is_dir():
        _extract(root, commit, inside, copies)
    if not (copies / inside).is_file():
        raise _missing(inside, commit)
    return copies / inside


def unused(in_use: Iterable[str]) -> list[Path]:
    """Return the copies, whole or interrupted, that no command uses and whose path none of these labels contains."""
    texts = list(in_use)
    return sorted(
        copy
        for copy in (_copies().iterdir() if _copies().is_dir() else ())
        if lock.is_free(_lock_of(copy)) and not any(f"{copy}/" in text for text in texts)
    )


def _lock_of(copy: Path) -> str:
    return f"revision-{copy.name[:DIGITS]}"


def remove(copies: list[Path]) -> list[str]:
    """Delete copies of revisions that no command uses now; return how each is named to the user."""
    gone = []
    for copy in copies:
        with lock.held_if_free(_lock_of(copy)) as by:
            if not by:
                shutil.rmtree(copy, ignore_errors=True)
                gone.append(shown(copy))
    return gone


def shown(copy: Path) -> str:
    return f"the copy {copy.name[:12]} of a revision"


def _copies() -> Path:
    return folders.KEPT / "revisions"


def _extract(root: Path, commit: str, inside: Path, copies: Path) -> None:
    found = _git(root, "ls-tree", "--name-only", commit, *FOLDERS, str(inside.parent))
    there = [name for name in found.stdout.decode().splitlines() if name]
    packed = _git(root, "archive", "--format=zip", commit, *there, *([str(inside.parent)] if not there else []))
    if packed.returncode or not packed.stdout:
        raise _missing(inside, commit)
    private_folder(copies.parent)
    # A copy is there as a whole or not at all: another command may make it now, and a lab may use it.
    with (
        writing(copies),
        TemporaryDirectory(dir=copies.parent, prefix=commit) as beside,
        ZipFile(BytesIO(packed.stdout)) as archive,
    ):
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
