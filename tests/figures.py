"""The figures of the docs: `python -m tests.figures` draws them, from kept records and from the tables beside them.

Before that it writes the parts of pages that are made from kept records (tests/kept.py).

A figure whose table stands on the same page is drawn from that table, so that the two cannot differ.
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from replication_lab import runs
from replication_lab.report import charts, timelines
from replication_lab.report.chart import Chart, Line
from replication_lab.world import catalogue
from replication_lab.world.journal import read

from tests import badges, dots, drill_page, kept, picture
from tests.dots import Dot, Panel
from tests.records import golden

DOCS = catalogue.ROOT / "docs"
CLIENTS = (1, 4, 16, 64)
LAW = 5
VALUE = re.compile(r"([\d.]+)(?: [\[(]([\d.]+)–([\d.]+)[\])])?")
# What a table of drbd_cost has in round brackets after a value.
PUBLISHED = re.compile(r"\(([\d.]+)\)$")


def figures() -> dict[str, Callable[[], str]]:
    """Return what draws each figure, by the file's name."""
    return {
        "semisync_wan.svg": semisync_wan,
        "galera_vs_semisync.svg": galera_vs_semisync,
        "temporary_tables.svg": temporary_tables,
        "raid_replica.svg": raid_replica,
        "raid_appliers.svg": raid_appliers,
        "raid0_disks.svg": raid0_disks,
        "drbd_cost.svg": drbd_cost,
        "faults.svg": faults,
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
    return picture.standalone(panels, "Throughput against clients at 85 ms, per engine and wait point")


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
    return picture.standalone(panels, "Throughput by number of clients: Galera and semi-sync")


def _section(page: str, title: str) -> str:
    """Return the text below a heading of a page, up to the next heading of the same level."""
    level = title.partition(" ")[0]
    text = (DOCS / f"{page}.md").read_text()
    return re.split(rf"^{level} ", text.partition(f"\n{title}\n")[2], maxsplit=1, flags=re.M)[0]


def _dot(name: str, cell: str, published: str = "–") -> Dot:
    value, ends = _measured(cell)
    return Dot(name.replace("`", "").replace("*", ""), value, ends, None if published == "–" else float(published))


def temporary_tables() -> str:
    """Draw the seconds for 20 queries, by server and table."""
    head, _, *rows = _rows(_section("temporary_tables", "## What came out"))
    panels = [
        Panel(f"{head[at].strip('`')}: seconds for 20 queries", [_dot(row[0], row[at]) for row in rows])
        for at in (1, 2)
    ]
    return dots.drawn("Seconds for 20 queries with a temporary table on disk, by server", panels)


def raid_appliers() -> str:
    """Draw the rows a second that RAID1 and RAID0 applied, by case, for both engines."""
    panels = []
    for engine in ("MariaDB", "MySQL 8.0"):
        head, _, *rows = _rows(_section("raid_replica", f"### {engine}: parallel appliers").partition("\n- ")[0])
        found = [_dot(f"{row[0]}, {head[at]}", row[at]) for row in rows for at in (1, 2)]
        panels.append(Panel(f"{engine}: rows a second applied", found))
    return dots.drawn("Rows a second applied on RAID1 and RAID0, by applier", panels)


def raid0_disks() -> str:
    """Draw the ratios to one disk of the claims, beside what was published."""
    rows = [row for row in _rows(_section("raid_replica", "### Claims: RAID0 of cloud disks")) if " RAID" in row[1]]
    panels = []
    for calibration in ("disks without the instance's cap", "calibrated to the published instance's cap"):
        named = [(re.match(rf"{calibration}, ([^:]+): (RAID\d)", row[1]), row) for row in rows]
        found = [_dot(f"{match[2]}, {match[1]}", row[4], row[2]) for match, row in named if match]
        assert found, f"no claim begins with {calibration!r}"
        panels.append(Panel(f"{calibration}: IOPS, as multiples of one disk's", found))
    return dots.drawn("RAID0 and RAID1 of two disks, as multiples of the IOPS of one", panels)


def drbd_cost() -> str:
    """Draw the transactions a second in each state, beside what was published."""
    _, _, *rows = _rows(_section("drbd_cost", "## What came out").partition("<!-- from a kept record: claims")[0])
    found = []
    for name, cell, *_ in rows:
        published = PUBLISHED.search(cell)
        found.append(_dot(name, cell, published[1] if published else "–"))
    return dots.drawn("What DRBD costs", [Panel("transactions a second", found)])


def faults() -> str:
    """Draw the rows lost in each drill that lost any."""
    text = (DOCS / "faults.md").read_text()
    tables = [(section.split()[0], section) for section in text.split("\n## ")[1:]]
    lost = [
        (f"{name} {drill}", float(rows)) for name, table in tables for drill, rows in drill_page.LOST.findall(table)
    ]
    found = [Dot(name, rows) for name, rows in lost if rows]
    return dots.drawn("Acknowledged rows lost, by drill", [Panel("acknowledged rows lost", found)])


# --- from kept records ------------------------------------------------------------------------------------------------


def _kept(name: str) -> tuple:
    with TemporaryDirectory() as folder:
        run = golden.unpack(name, Path(folder))
        summary, found = runs.summed_up(run, read(run)[1])
        return summary, read(run)[1], found


def raid_replica() -> str:
    """Draw the rows behind the source in a race, from the kept record."""
    summary, record, _ = _kept("raid_replica")
    return picture.standalone(list(charts.lags("mariadb", summary, record)), "Rows behind the source over time")


def drill() -> str:
    """Draw a drill that loses rows, from the kept record: a link that is cut, then a source that dies."""
    summary, _, found = _kept("drill-semisync")
    shown = next(drill for drill in summary.drills if drill.name == "lose-source-asynchronous")
    parts = timelines.charts("drill", shown, found[shown.ledger])
    return picture.standalone(parts, "A drill over time: writes, latencies and errors, with the faults")


if __name__ == "__main__":
    for path in kept.PAGES:
        path.write_text(kept.page(path))
    for name, draw in figures().items():
        (DOCS / name).write_text(draw())
        sys.stdout.write(f"docs/{name}\n")
    for name, badge in badges.badges().items():
        (badges.FOLDER / name).write_text(badge)
        sys.stdout.write(f"docs/images/{name}\n")
