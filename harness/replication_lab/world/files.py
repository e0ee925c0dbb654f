"""Files that only their owner can read, some written atomically; and commands timed from outside."""

import os
import stat
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from replication_lab.model.errors import LabError


def seconds_of(command: Sequence[str], folder: Path) -> float:
    """Return the wall-clock seconds of a command; LabError with its last lines when it fails."""
    began = time.perf_counter()
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if ended.returncode:
        last = "\n  ".join((ended.stderr or ended.stdout).strip().splitlines()[-6:])
        raise LabError(
            f"`{' '.join(command)}` ended with status {ended.returncode}:\n  {last}", "exit status 0", "./lab doctor"
        )
    return seconds


def read_own(path: Path) -> bytes | None:
    """Return the content of a file that is this user's alone; None for any other, and for a link."""
    with suppress(OSError), open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return file.read()
    return None


def private_folder(path: Path) -> Path:
    """Make a folder, and those above it, that only its owner can enter; one that exists stays as it is."""
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
    return path


def open_private(path: Path, mode: str, buffering: int = -1) -> IO[Any]:
    """Open a file as `open` does; if it is made here, only its owner can read it, from the first moment on."""
    return open(path, mode, buffering, opener=lambda name, flags: os.open(name, flags, 0o600))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; a reader sees the old file or the new one, also on a full disk."""
    beside = private_folder(path.parent) / f".{path.name}.{os.getpid()}"
    beside.unlink(missing_ok=True)
    try:
        with open_private(beside, "xb") as file:
            file.write(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
