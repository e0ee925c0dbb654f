"""Measure the runs that docs/comparing.md compares and shows over time, and keep what is compared of them.

`python -m tests.records.compared` writes them; `make figures` then prints the comparisons and the history.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from replication_lab import runs
from replication_lab.model.comparing.digest import Digest, decode, encode
from replication_lab.world import catalogue

HERE = Path(__file__).parent
HISTORY = HERE / "history.json"


def is_kept(name: str) -> bool:
    """Return whether the run was measured."""
    return _file(name).is_file()


def kept(name: str) -> Digest:
    """Return what is compared of a run."""
    return decode(_file(name).read_bytes(), name)


def history() -> list[Digest]:
    """Return what is compared of the runs over time, the oldest first; nothing while they were not measured."""
    return msgspec.json.decode(HISTORY.read_bytes(), type=list[Digest]) if HISTORY.is_file() else []


def _file(name: str) -> Path:
    return HERE / f"compared-{name}.json"


def main() -> None:
    """Measure all of them on one server, after a first run that is not kept: it has another level than the others."""
    from tests.lab.test_comparing import FAST, SLOW, measured, server_on_a_disk

    with TemporaryDirectory() as folder, server_on_a_disk() as lab:
        catalogue.RUNS = Path(folder)
        measured(lab, FAST)
        for name, variables in (("before", FAST), ("again", FAST), ("slower", SLOW)):
            _file(name).write_bytes(encode(runs.digest_of(str(measured(lab, variables)))))
        series = [runs.digest_of(str(measured(lab, variables))) for variables in [FAST] * 10 + [SLOW] * 4]
        HISTORY.write_bytes(msgspec.json.format(msgspec.json.encode(series), indent=0) + b"\n")


if __name__ == "__main__":
    main()
