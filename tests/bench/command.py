"""A command timed from outside."""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from replication_lab.model.core.errors import LabError


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
