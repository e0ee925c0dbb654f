"""The files that say which labs are viewed, one for each view; found without importing Docker."""

import os
from pathlib import Path

from replication_lab.world import places

FOLDER, SUFFIX = places.KEPT / "labs", ".viewed"


def file_of(lab: str) -> Path:
    """Return the file of this process's view of a lab."""
    return FOLDER / f"{lab}.{os.getpid()}{SUFFIX}"


def files() -> list[Path]:
    return sorted(FOLDER.glob(f"*{SUFFIX}"))
