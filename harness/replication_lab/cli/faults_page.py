"""`make drills`: every drill of every topology, and docs/faults.md made from what they came to."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import jinja2

from replication_lab.model.claim import Verdict
from replication_lab.model.drill import Opened, Result
from replication_lab.model.errors import LabError
from replication_lab.runner import drill_set
from replication_lab.world import catalogue

TEMPLATE = Path(__file__).parent / "faults_page.md.j2"
PAGE = catalogue.ROOT / "docs" / "faults.md"
ENGINE, SEED = "mariadb", 7


def page(runs: Sequence[tuple[Opened, list[Result]]], before: str = "") -> str:
    """The page of recorded drills: a table for each topology, those of the page `before` where it was not drilled."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"verdicts": _verdicts, "cell": _cell}
    head, *made = _sections(environment.from_string(TEMPLATE.read_text()).render(runs=runs))
    _, *old = _sections(before)
    tables = {_topology(section): section for section in (*old, *made)}
    known = [name for name in drill_set.known() if name in tables]
    return head + "\n\n".join(tables[name].strip() for name in known) + "\n"


def _sections(text: str) -> list[str]:
    """What is before the first table, then each table with its heading."""
    return re.split(r"^(?=## )", text, flags=re.M)


def _topology(section: str) -> str:
    return section.split()[1]


def _verdicts(result: Result) -> str:
    """Each kind of verdict with how often it came, and those that are known to be refuted by their sentence."""
    known = [one.expectation for one in result.held if one.verdict is Verdict.REFUTED and not one.changed]
    others = [one for one in result.held if one.changed or one.verdict is Verdict.UNKNOWN]
    said = [f"REFUTED as known: {one.says}: {one.because}" for one in known]
    said += [f"**{one.verdict}**: {one.expectation.says}" for one in others]
    return "; ".join(said) or "all hold"


def _cell(result: Result, figure: str) -> str:
    found = result.figures.get(figure)
    return "–" if found is None else f"{found:.1f}" if isinstance(found, float) else str(found)


def main(runs: Sequence[str]) -> int:
    """Write the page from new runs of every topology, or the tables of recorded runs anew; the worst exit status."""
    folders = list(runs) or [str(_run(topology)) for topology in drill_set.known()]
    judged = [(drill_set.opened(folder), drill_set.judge(folder)) for folder in folders]
    PAGE.write_text(page(judged, PAGE.read_text() if runs else ""))
    print(f"written: {PAGE.relative_to(catalogue.ROOT)}", file=sys.stderr)
    codes = {result.exit_code for _, results in judged for result in results}
    return 1 if 1 in codes else max(codes, default=2)


def _run(topology: str) -> Path:
    drills = drill_set.chosen(topology, None, None)
    folder, _ = drill_set.run(topology, ENGINE, drills, SEED, lambda line: print(line, file=sys.stderr, flush=True))
    return folder


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(3)
