"""The page of drills, docs/faults.md: a table for each topology, made from its kept record."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.drill import Drill
from replication_lab.report import templates, wording
from replication_lab.report.rows import DrillRow, DrillsSummary

TEMPLATE = Path(__file__).with_name("drill_page.md.j2")
# Where the template has the answer, and the drill and its lost rows in a row of a table.
ANSWER = "<!-- answer -->"
LOST = re.compile(r"^\| ([\w-]+) \| [^|]* \| [^|]* \| (\d+) \|", re.M)
THREE_DIGITS = 100


def page(runs: Sequence[DrillsSummary], drills: Mapping[str, Sequence[Drill]], before: str = "") -> str:
    """Write a table for each topology of `drills`, in their order; keep the section of `before` if it has no run."""
    environment = templates.environment()
    environment.filters |= {"verdicts": _verdicts, "cell": _cell, "wrapped": _wrapped}
    template = environment.from_string(TEMPLATE.read_text())
    head, *made = _sections(template.render(runs=runs, rows=lambda run: _rows(run, drills), wording=wording))
    _, *old = _sections(before)
    sections = {_topology(section): section for section in (*old, *made)}
    tables = {name: sections[name].strip() for name in drills if name in sections}
    return head.replace(ANSWER, _answer(tables)).rstrip() + "\n\n" + "\n\n".join(tables.values()) + "\n"


def _rows(run: DrillsSummary, drills: Mapping[str, Sequence[Drill]]) -> list[DrillRow | Drill]:
    """Return the result of each drill of the topology, or the drill itself if it is not in the record."""
    found = {row.name: row for row in run.drills}
    return [*(found.pop(drill.name, drill) for drill in drills.get(run.topology, ())), *found.values()]


def _answer(tables: dict[str, str]) -> str:
    """Return the sentences that the page begins with: how many drills lost acknowledged rows, and which."""
    rows = [(f"{name} {drill}", lost) for name, text in tables.items() for drill, lost in LOST.findall(text)]
    losing = [f"{drill} ({lost})" for drill, lost in rows if int(lost)]
    said = f"**{len(losing)} of {len(rows)} drills lost rows that a server had acknowledged"
    which = f":** {', '.join(losing)}." if losing else ".**"
    return _wrapped(f"{said}{which}")


def _wrapped(text: str) -> str:
    """Wrap prose as in the rest of the book."""
    return textwrap.fill(text.strip(), 100, break_on_hyphens=False)


def _sections(text: str) -> list[str]:
    """Split a page into what is before the first table, then each table with its heading."""
    return re.split(r"^(?=## )", text, flags=re.M)


def _topology(section: str) -> str:
    return section.split()[1]


def _verdicts(drill: DrillRow | Drill) -> str:
    """List the verdicts that need a remark, with their sentences; expected refutations with the reason."""
    if isinstance(drill, Drill):
        return "not in the kept record"
    known = [one for one in drill.expectations if one.verdict is Verdict.REFUTED and not one.changed]
    others = [one for one in drill.expectations if one.changed or one.verdict is Verdict.UNKNOWN]
    said = [f"REFUTED as known: {one.sentence}: {one.because}" for one in known]
    said += [f"**{one.verdict}**: {one.sentence}" for one in others]
    return "; ".join(said) or "all hold"


def _cell(drill: DrillRow | Drill, figure: str) -> str:
    found = None if isinstance(drill, Drill) else drill.figures.get(figure)
    if isinstance(found, float):
        return f"{found:.1f}" if found < THREE_DIGITS else f"{found:.0f}"
    return "–" if found is None else str(found)
