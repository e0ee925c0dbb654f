"""The figures of the docs: `python -m tests.figures` draws them, from kept records and from the tables beside them.

A figure whose table stands on the same page is drawn from that table, so that the two cannot differ.
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from replication_lab import runs
from replication_lab.report import charts, figure, timelines
from replication_lab.report.chart import Chart, Line
from replication_lab.world import catalogue
from replication_lab.world.journal import read

from tests.records import golden

DOCS = catalogue.ROOT / "docs"
CLIENTS = (1, 4, 16, 64)
LAW = 5
VALUE = re.compile(r"([\d.]+)(?: \[([\d.]+)–([\d.]+)\])?")


def figures() -> dict[str, Callable[[], str]]:
    """Return what draws each figure, by the file's name."""
    return {
        "semisync_wan.svg": semisync_wan,
        "galera_vs_semisync.svg": galera_vs_semisync,
        "raid_replica.svg": raid_replica,
        "drill.svg": drill,
    }


def _measured(cell: str) -> tuple[float, tuple[float, float] | None]:
    """Return the value and the interval of a table's cell."""
    match = VALUE.match(cell.strip())
    assert match, cell
    value, low, high = match.groups()
    return float(value), (float(low), float(high)) if low else None


def _line(label: str, cells: dict[float, str], look: int) -> Line:
    found = {x: _measured(cell) for x, cell in cells.items()}
    return Line(label, [(x, value) for x, (value, _) in found.items()], look, ends=[ends for _, ends in found.values()])


def _by_clients(told: str, lines: list[Line], ticks: list[float]) -> Chart:
    return Chart(
        name="figure", told=told, x="clients", y="commits/s", lines=lines, log_x=True, log_y=True, x_ticks=ticks
    )  # fmt: skip


# --- from the tables of a page ----------------------------------------------------------------------------------------


def _rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def semisync_wan() -> str:
    """Draw the throughput at 85 ms of every engine by clients, for both wait points, beside the law clients/RTT."""
    text = (DOCS / "semisync_wan.md").read_text().partition("\n## Results\n")[2].partition("\n## ")[0]
    engines = {section.splitlines()[0]: section for section in text.split("\n### ")[1:]}
    panels = []
    for point in ("after-sync", "after-commit"):
        cells = {engine: _of_cases(section, point) for engine, section in engines.items()}
        lines = [_line(engine, found, look) for look, (engine, found) in enumerate(cells.items()) if found]
        law = [(float(clients), clients * 1000 / 85) for clients in CLIENTS]
        lines.append(Line("clients / 85 ms", law, LAW, bare=True))
        title = f"{point.upper().replace('-', '_')}, 85 ms: commits a second by clients"
        panels.append(_by_clients(title, lines, list(map(float, CLIENTS))))
    return figure.standalone(panels, "Throughput against clients at 85 ms, per engine and wait point")


def _of_cases(section: str, point: str) -> dict[float, str]:
    """Return the measured throughput by clients, from the rows `POINT-85ms-N`."""
    named = {row[0]: row[4] for row in _rows(section) if len(row) > 4 and row[1].startswith("throughput")}
    return {float(n): named[case] for n in CLIENTS if (case := f"`{point}-85ms-{n}`") in named}


def galera_vs_semisync() -> str:
    """Draw the throughput of Galera and semi-sync by clients, on a LAN and at 85 ms."""
    text = (DOCS / "galera_vs_semisync.md").read_text()
    panels = []
    for title in ("On a LAN", "At 85 ms"):
        head, _, *rows = _rows(text.partition(f"\n### {title}\n")[2].partition("\n#")[0])
        lines = [_line(head[column], {float(row[0]): row[column] for row in rows}, column - 1) for column in (1, 2, 3)]
        panels.append(_by_clients(f"{title}: commits a second by clients", lines, [float(row[0]) for row in rows]))
    return figure.standalone(panels, "Throughput by number of clients: Galera and semi-sync")


# --- from kept records ------------------------------------------------------------------------------------------------


def _kept(name: str) -> tuple:
    with TemporaryDirectory() as folder:
        run = golden.unpack(name, Path(folder))
        summary, found = runs.summed_up(run, read(run)[1])
        return summary, read(run)[1], found


def raid_replica() -> str:
    """Draw the rows behind the source in a race, from the kept record."""
    summary, record, _ = _kept("raid_replica")
    return figure.standalone(list(charts.lags("mariadb", summary, record)), "Rows behind the source over time")


def drill() -> str:
    """Draw a drill that loses rows, from the kept record: a link that is cut, then a source that dies."""
    summary, _, found = _kept("drill-semisync")
    shown = next(drill for drill in summary.drills if drill.name == "lose-source-asynchronous")
    parts = timelines.charts("drill", shown, found[shown.ledger])
    return figure.standalone(parts, "A drill over time: writes, latencies and errors, with the faults")


if __name__ == "__main__":
    for name, draw in figures().items():
        (DOCS / name).write_text(draw())
        sys.stdout.write(f"docs/{name}\n")
