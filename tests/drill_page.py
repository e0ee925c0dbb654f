"""The page of drills, docs/faults.md: a table for each topology, made from recorded runs."""

import re
import textwrap
from collections.abc import Sequence

from replication_lab.model.verdict import Verdict
from replication_lab.report import templates, wording
from replication_lab.report.rows import DrillRow, DrillsSummary

# Where the template has the answer, and the drill and its lost rows in a row of a table.
ANSWER = "<!-- answer -->"
LOST = re.compile(r"^\| ([\w-]+) \| [^|]* \| [^|]* \| (\d+) \|", re.M)


def page(runs: Sequence[DrillsSummary], topologies: Sequence[str], before: str = "") -> str:
    """Write a table for each of `topologies`, in their order; keep the table of the page `before` if it has no run."""
    environment = templates.environment()
    environment.filters |= {"verdicts": _verdicts, "cell": _cell, "wrapped": _wrapped}
    head, *made = _sections(environment.get_template("drill_page.md.j2").render(runs=runs, wording=wording))
    _, *old = _sections(before)
    sections = {_topology(section): section for section in (*old, *made)}
    tables = {name: sections[name].strip() for name in topologies if name in sections}
    return head.replace(ANSWER, _answer(tables)).rstrip() + "\n\n" + "\n\n".join(tables.values()) + "\n"


def _answer(tables: dict[str, str]) -> str:
    """Return the sentences that the page begins with: how many drills lost acknowledged rows, and which."""
    rows = [(f"{name} {drill}", lost) for name, text in tables.items() for drill, lost in LOST.findall(text)]
    losing = [f"{drill} ({lost})" for drill, lost in rows if int(lost)]
    said = f"**{len(losing)} of {len(rows)} drills lost rows that a server had acknowledged"
    which = f":** {', '.join(losing)}." if losing else ".**"
    return _wrapped(f"{said}{which} The last column has the reasons.")


def _wrapped(text: str) -> str:
    """Wrap prose as in the rest of the book."""
    return textwrap.fill(text.strip(), 100, break_on_hyphens=False)


def _sections(text: str) -> list[str]:
    """Split a page into what is before the first table, then each table with its heading."""
    return re.split(r"^(?=## )", text, flags=re.M)


def _topology(section: str) -> str:
    return section.split()[1]


def _verdicts(drill: DrillRow) -> str:
    """List the verdicts that need a remark, with their sentences; expected refutations with the reason."""
    known = [one for one in drill.expectations if one.verdict is Verdict.REFUTED and not one.changed]
    others = [one for one in drill.expectations if one.changed or one.verdict is Verdict.UNKNOWN]
    said = [f"REFUTED as known: {one.sentence}: {one.because}" for one in known]
    said += [f"**{one.verdict}**: {one.sentence}" for one in others]
    return "; ".join(said) or "all hold"


def _cell(drill: DrillRow, figure: str) -> str:
    found = drill.figures.get(figure)
    return "–" if found is None else f"{found:.1f}" if isinstance(found, float) else str(found)
