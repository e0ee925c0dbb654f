"""Figures and tables as the pages write them: three significant digits, and Markdown."""

from collections.abc import Iterator


def digits(value: float) -> str:
    """Return a figure with three significant digits, and no more of an integer's."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.2e}")
    return f"{rounded:#.3g}".rstrip(".") if abs(rounded) < 1000 else f"{rounded:.0f}"


def with_interval(value: float, low: float, high: float) -> str:
    return f"{digits(value)} [{digits(low)}–{digits(high)}]"


def known_value(value: float | None) -> str:
    return "–" if value is None else digits(value)


def quoted(published: float | None) -> str:
    """Return a value as it was published."""
    return "–" if published is None else f"{published:g}"


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = (head, ("---",) * len(head), *rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in lines).replace("| --- ", "|---").replace("---|---", "---|---")


def span(low: float, high: float, digits: int) -> str:
    """Return the least and the most of a figure over the drills of a case."""
    least, most = f"{low:.{digits}f}", f"{high:.{digits}f}"
    return least if least == most else f"{least} to {most}"
