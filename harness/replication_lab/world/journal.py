"""The folder of a run, of an experiment or of drills: its record, written line by line as things happen."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.event import CRASHED, INTERRUPTED, RECORD, Chain, End, Event, Opening
from replication_lab.model.record.record import Record, encode, of_another_version
from replication_lab.world import catalogue, signals
from replication_lab.world.files import LineByLine, private_folder, reading, writing

LATEST = "latest"


class Journal:
    """A run's folder under runs/; each event is written to disk before the run continues.

    The link `latest` is set after the first line: a process that is killed before leaves an empty record.
    """

    def __init__(self, what: str, now: Callable[[], datetime] = datetime.now, runs: Path | None = None):
        self._runs = runs or catalogue.RUNS
        self.folder = _new_folder(self._runs, f"{now():%Y%m%d-%H%M%S}-{what}")
        self.record, self._chain = Record(), Chain()
        self._file, self._guard = LineByLine(self.folder / RECORD), threading.Lock()

    def write(self, event: Event) -> None:
        with self._guard:
            line, chain = encode(event, self._chain)
            self._file.write(line, sync=True)
            # Not of a line that was not written, as on a full disk.
            self._chain = chain
            if not self.record.events:
                beside = self._runs / f".{LATEST}.{os.getpid()}"
                with writing(self._runs / LATEST):
                    beside.unlink(missing_ok=True)
                    beside.symlink_to(self.folder.name)
                    beside.replace(self._runs / LATEST)
            self.record = self.record.plus(event)

    @contextmanager
    def recording(self, opening: Opening) -> Iterator[None]:
        """Record a run within the block: write its first line, and its last one if an interruption or error ends it.

        An interruption is recorded and not raised again, because the results until then are judged and reported.
        """
        with closing(self):
            self.write(opening)
            try:
                yield
            except KeyboardInterrupt as stop:
                signals.noticed()
                self.write(End(why=INTERRUPTED, reason=str(stop) or "SIGINT"))
            except BaseException as error:
                # The error may be that nothing can be written; it is the one to tell.
                with suppress(LabError):
                    said = error.found if isinstance(error, LabError) else error
                    self.write(End(why=CRASHED, reason=f"{type(error).__name__}: {said}"))
                raise

    def close(self) -> None:
        self._file.close()


def ledger(folder: Path, drill: str) -> Path:
    """Return the file beside a record in which the clients of a drill record their statements."""
    return folder / f"ledger-{drill}.jsonl"


def _new_folder(runs: Path, name: str) -> Path:
    """Make a folder of that name, with a number appended if it exists: two runs may begin within a second."""
    private_folder(runs)
    for number in range(1, 100):
        folder = runs / (name if number == 1 else f"{name}-{number}")
        with writing(folder):
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                continue
        return folder
    raise LabError(
        f"{runs / name} exists with 99 numbered variants", "a new folder for the run", f"remove old runs from {runs}"
    )


def names() -> list[str]:
    """Return the names of the runs under runs/ whose record has begun, the newest last."""
    begun = [path for path in catalogue.RUNS.glob(f"*/{RECORD}") if path.is_file() and path.stat().st_size]
    return sorted(path.parent.name for path in begun if not path.parent.is_symlink())


def read(run: str | Path) -> tuple[Path, Record]:
    """Return the folder and the record of a run: a path, a name under runs/, or `latest`."""
    found = record_file(run)
    with reading(found) as lines:
        try:
            return found.parent.resolve(), Record.parse(lines, partial(_part, found))
        except LabError as error:
            raise LabError(f"{found}: {error.found}", error.expected, error.next_step) from error


def _part(file: Path, begin: int, length: int) -> bytes:
    with reading(file) as whole:
        whole.seek(begin)
        return whole.read(length)


def record_file(run: str | Path) -> Path:
    """Return the file of a run's record; LabError if there is none."""
    for folder in (Path(run), catalogue.RUNS / run):
        if os.path.exists(folder / RECORD):
            return folder / RECORD
        if os.path.exists(folder / "drill.jsonl"):
            raise of_another_version(f"{folder} has no {RECORD}, but drill.jsonl of an older version")
    known = ", ".join(names()[-5:])
    raise LabError(
        f"no record in {run}",
        known or "a recorded run; there is none under runs/ yet",
        "./lab list runs" if known else "./lab run semisync_wan",
    )
