"""A prediction as text: what it comes to, then each point beside the measured one."""

from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from replication_lab.model.core.groups import grouped
from replication_lab.model.question.prediction import Predicted, Prediction
from replication_lab.model.question.setting import named

NO_VERDICT = "A prediction is not a verdict: it was simulated, not measured (docs/predicting.md)."
FIGURES = {"commits/s": "throughput", "p50 ms": "p50_ms", "p99 ms": "p99_ms"}
OF_A_SECOND = 1000


def rendered(found: Prediction) -> Group:
    """Return the prediction for a terminal."""
    shared = f"all points with {named(_shared(found.points))}" if _shared(found.points) else ""
    source = f"fitted to {', '.join(found.sources)}; seed {found.seed}"
    head = [*_answers(found.points), NO_VERDICT, source, *filter(None, [shared]), ""]
    tail = [f"{name}: {named({key: f'{value:g}' for key, value in known.items()})}" for name, known in _known(found)]
    return Group(Text("\n".join(head)), _table(found.points), Text("\n".join(["", *_remarks(found.points), *tail])))


def _answers(points: Sequence[Predicted]) -> Iterator[str]:
    """Yield a line for each topology: the range of its throughput and latency, and what limits it."""
    for topology in dict.fromkeys(point.topology for point in points):
        own = [point for point in points if point.topology == topology]
        limits = ", ".join(dict.fromkeys(point.limit for point in own))
        rates, medians = ([getattr(each, name) for each in own] for name in ("throughput", "p50_ms"))
        beyond = sum(bool(point.extrapolated) for point in own)
        yield (
            f"{topology}: about {_range(rates, 'commits/s')}, p50 {_range(medians, 'ms')}, limited by {limits}; "
            f"{beyond} of {len(own)} points extrapolated"
        )


def _range(values: Sequence[float], unit: str) -> str:
    low, high = _number(min(values)), _number(max(values))
    return f"{low if low == high else f'{low} to {high}'} {unit}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= OF_A_SECOND else f"{value:.3g}"


def _table(points: Sequence[Predicted]) -> Table:
    """Return the table; without the columns of measured figures if nothing was measured there."""
    table, seen = Table(box=None, pad_edge=False), any(point.measured for point in points)
    table.add_column("point")
    for name in FIGURES:
        table.add_column(name, justify="right", no_wrap=True)
        if seen:
            table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("limited by", no_wrap=True)
    table.add_column("", no_wrap=True)
    shared = _shared(points)
    for point in points:
        own = named({name: value for name, value in point.values.items() if name not in shared})
        cells = []
        for field in FIGURES.values():
            cells += [_number(getattr(point, field))]
            cells += [_number(getattr(point.measured, field)) if point.measured else "–"] if seen else []
        mark = Text("extrapolated", style="yellow") if point.extrapolated else ""
        table.add_row(f"{point.topology} {own}", *cells, f"{point.limit} {point.share:.0%}", mark)
    return table


def _shared(points: Sequence[Predicted]) -> dict[str, str]:
    """Return the settings that are the same at all points."""
    first = points[0].values
    return {name: value for name, value in first.items() if all(each.values.get(name) == value for each in points)}


def _remarks(points: Sequence[Predicted]) -> Iterator[str]:
    """Yield what is outside of what was measured, and which figures have not been validated, with the topologies."""
    for what in ("extrapolated", "not_validated"):
        found = grouped((each, point.topology) for point in points for each in getattr(point, what))
        for remark, topologies in found.items():
            yield f"{what.replace('_', ' ')} ({', '.join(dict.fromkeys(topologies))}): {remark}"


def _known(found: Prediction) -> Iterator[tuple[str, dict[str, float]]]:
    for name, known in found.parameters.items():
        yield f"parameters of {name}, times in ms", {key: value for key, value in known.items() if value}
