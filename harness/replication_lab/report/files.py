"""The files of a report, each written atomically."""

import os
from collections.abc import Mapping
from pathlib import Path

from replication_lab.model.record import Record
from replication_lab.model.timeline import Timeline
from replication_lab.report import junit, summary
from replication_lab.report.rows import Summary


def write(
    folder: str | Path, result: Summary, record: Record, timelines: Mapping[str, Timeline] | None = None
) -> list[str]:
    """Write the report's files into an existing folder and return their names, in the order written.

    `timelines` are those of the run's drills, by the name of the ledger.
    """
    replace(Path(folder) / "summary.json", summary.encode(result))
    replace(Path(folder) / "junit.xml", junit.render(result))
    from replication_lab.report import page

    replace(Path(folder) / "report.html", page.render(result, record, timelines).encode())
    return ["summary.json", "junit.xml", "report.html"]


def replace(path: Path, content: bytes) -> None:
    """Write beside the target, then rename: a reader sees the old file or the new one; a full disk damages neither."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
