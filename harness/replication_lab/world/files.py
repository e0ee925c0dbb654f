"""Files written atomically, and commands timed from outside."""

import os
import stat
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

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


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically, readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.chmod(0o600)
    temporary.replace(path)
