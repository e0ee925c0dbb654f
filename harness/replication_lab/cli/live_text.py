"""The live view as text for `lab watch`: a screen, or a line."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from replication_lab.model.live.view import Hello, Level, ViewedLink, ViewedNode, ViewedState

# Commits from which on a 99th percentile is another figure than the maximum.
ENOUGH = 100
COLOURS = {Level.GOOD: "green", Level.WARN: "yellow", Level.BAD: "red", Level.UNKNOWN: "dim"}


def line(state: ViewedState) -> str:
    """Return the sample in one line."""
    sample = state.sample
    states = ", ".join(f"{band.track} {band.state or 'unknown'}" for band in sample.bands)
    trips = ", ".join(f"{name} {_number(ms)} ms" for name, ms in sample.round_trip_ms.items())
    rate = f"{_number(sample.commits_per_s)}/s (ceiling {_number(sample.law_per_s)}), " if state.load.clients else ""
    return f"{sample.at:7.1f} s  {rate}{states}{f'; {trips}' if trips else ''}"


def screen(hello: Hello, state: ViewedState) -> RenderableType:
    """Return the whole view."""
    head = Text(f"{hello.lab}  {hello.topology}  {hello.engine}  {state.at:.0f} s", style="bold")
    parts: list[RenderableType] = [head, _nodes(state), *([_links(state)] if state.links else [])]
    if state.load.clients:
        parts += [_load(state), _ledger(state)]
    acting = [span.label for span in state.spans if span.acts]
    parts += [Text(f"acting: {', '.join(acting)}", style="yellow")] if acting else []
    return Group(*parts, *(Text(sentence) for sentence in state.explain))


def _nodes(state: ViewedState) -> Table:
    table = _table("node", "role", "container", "state", "lag")
    for node in state.nodes:
        name = Text(f"{node.name}{' ←' if node.writes_here else ''}")
        table.add_row(name, node.role, node.at, Text(node.state, style=COLOURS[node.level]), _lag(node))
    return table


def _lag(node: ViewedNode) -> str:
    seconds = "" if node.lag_s is None else f"{node.lag_s:g} s"
    return seconds + ("" if node.behind is None else f", {node.behind} behind").removeprefix(
        ", " if not seconds else ""
    )


def _links(state: ViewedState) -> Table:
    table = _table("link", "requested", "measured", "")
    for link in state.links:
        table.add_row(link.name, link.asked, f"{_number(link.measured_ms)} ms", _seen(link))
    return table


def _seen(link: ViewedLink) -> Text:
    if link.seen is None:
        return Text("being verified", style="dim")
    return Text("verified", style="green") if link.seen else Text(f"NO EFFECT SEEN: {link.says}", style="red")


def _load(state: ViewedState) -> Text:
    sample, latency = state.sample, state.sample.latency
    rate, most = _number(sample.commits_per_s), _number(sample.law_per_s)
    said = f"{state.load.clients} clients: {rate} commits/s, ceiling {most}"
    if latency:
        # Of fewer commits the 99th percentile is no more than the slowest one.
        last = "p99" if latency.n >= ENOUGH else "slowest"
        said += f"; p50 {latency.p50_ms:.1f}, p95 {latency.p95_ms:.1f}, {last} {latency.p99_ms:.1f} ms (n {latency.n})"
    return Text(f"{said}; {_number(sample.errors_per_s)} errors/s")


def _ledger(state: ViewedState) -> Text:
    ledger = state.ledger
    counts = f"sent {ledger.sent}, acknowledged {ledger.acknowledged}, failed {ledger.failed}, unknown {ledger.unknown}"
    rows = f"{ledger.lost} acknowledged rows lost at {ledger.checked_at or 0:.0f} s"
    told = "lost rows not checked" if ledger.lost is None else rows
    return Text(f"{told}; ledger: {counts}", style="red" if ledger.lost else "")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading)
    return table
