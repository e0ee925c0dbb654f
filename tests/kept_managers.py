"""The table of what failover managers did in the drills of kept questions."""

from collections.abc import Iterator, Sequence

from tests import kept
from tests.kept_table import span, table

# What is printed of each drill, by its figure, and with how many decimals.
FIGURES = {"promoted_s": 1, "outage_s": 1, "lost": 0, "two_writable_s": 1, "false_failovers": 0, "left_to_do": 0}
HEAD = (
    "failover after, s",
    "without service, s",
    "rows lost",
    "two servers took writes, s",
    "failovers that were not needed",
    "left to do",
)


def managers(*names: str) -> str:
    """Return the figures of each manager in the drills of these questions, from the least to the most."""

    def rows() -> Iterator[tuple[str, ...]]:
        for name in names:
            summary = kept.experiment(name)
            for each in summary.drilled:
                found = [drill.figures for drill in each.drills]
                drill = f"{each.asked} ({len(found)} on {', '.join(summary.engines)})"
                cells = [_least_to_most([one.get(figure) for one in found], n) for figure, n in FIGURES.items()]
                yield f"`{each.case.partition('=')[2]}`", drill, *cells

    return table(("manager", "drill", *HEAD), rows())


def _least_to_most(found: Sequence[float | str | None], digits: int) -> str:
    """Return the range of a figure over drills; a dash if one of them does not have it."""
    known = [float(each) for each in found if each is not None]
    return span(min(known), max(known), digits) if known and len(known) == len(found) else "–"
