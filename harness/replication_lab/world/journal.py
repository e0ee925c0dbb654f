"""The folder of a run: its record, written line by line as things happen."""

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import IO

from replication_lab.model.errors import LabError
from replication_lab.model.record import Event, Record, encode
from replication_lab.world import catalogue

RECORD = "record.jsonl"


class Journal:
    """A run's folder under runs/, with `latest` pointing at it; an event is on disk before the next thing happens."""

    def __init__(self, experiment: str, now: Callable[[], datetime] = datetime.now, runs: Path = catalogue.RUNS):
        self.folder = new_folder(runs, f"{now():%Y%m%d-%H%M%S}-{experiment}")
        self.record = Record()
        self._file: IO[bytes] = (self.folder / RECORD).open("ab")
        _point_latest(runs, self.folder)

    def write(self, event: Event) -> None:
        self._file.write(encode(event))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.record = self.record.plus(event)

    def close(self) -> None:
        self._file.close()


def new_folder(runs: Path, name: str) -> Path:
    """A folder of that name, or with a number after it: two runs may begin within a second."""
    runs.mkdir(parents=True, exist_ok=True)
    for number in range(1, 100):
        folder = runs / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise LabError(f"{runs / name} exists a hundred times", "a new folder for the run", f"rm -r {runs}")


def _point_latest(runs: Path, folder: Path) -> None:
    beside = runs / f".latest.{os.getpid()}"
    beside.unlink(missing_ok=True)
    beside.symlink_to(folder.name)
    beside.replace(runs / "latest")


def read(run: str) -> tuple[Path, Record]:
    """The folder and the record of a run: a path, a name under runs/, or `latest`."""
    for folder in (Path(run), catalogue.RUNS / run):
        if (folder / RECORD).is_file():
            with (folder / RECORD).open("rb") as lines:
                return folder.resolve(), Record.parse(lines)
    known = sorted(path.parent.name for path in catalogue.RUNS.glob(f"*/{RECORD}") if not path.parent.is_symlink())
    raise LabError(f"no record in {run}", ", ".join(known[-5:]) or "a run", "./lab run semisync_wan")
