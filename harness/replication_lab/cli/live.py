"""The commands that show a lab while it runs: live, watch."""

import queue
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from replication_lab.cli import command, names, options
from replication_lab.cli.console import has_desktop, out, print_json, tell
from replication_lab.live.labs import USUAL, viewed
from replication_lab.live.session import Shown, ViewSession, viewing
from replication_lab.model.core import quantity
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.quantity import COUNT
from replication_lab.model.live.view import Gone, Hello, Level, ViewedLink, ViewedNode, ViewedState
from replication_lab.world import folders

CLIENTS, RATE = 4, "400/s"
# The formats of `lab watch`, and the port of the last.
LINE, SCREEN, PROMETHEUS = "line", "screen", "prometheus"
PORT = 9104


def _of_view(clients: int) -> options.Decorator:
    """Return what adds the options of both commands; `clients` is the default of --clients."""
    return options.all_of(
        click.argument("topology", required=False, shell_complete=names.topologies),
        options.of_lab,
        options.of_clients(options.Written(COUNT, 0, 256), clients),
        click.option("--rate", type=options.Written(quantity.RATE), default=RATE, show_default=True, metavar="RATE"),
        options.of_servers,
    )


@contextmanager
def _session(
    *,
    topology: str | None,
    name: str | None,
    clients: int,
    rate: float,
    engine: tuple[str, ...],
    image: tuple[str, ...],
) -> Iterator[ViewSession]:
    server = options.server_of(topology or USUAL, engine, image) if engine or image else None
    with viewed(topology, name, server, tell) as lab, viewing(lab, clients, rate, _report) as session:
        yield session


@command("live")
@_of_view(CLIENTS)
@click.option("--port", type=click.IntRange(0, 65535), default=0)
@click.option("--no-open", is_flag=True)
@options.as_json
def live(*, port: int, no_open: bool, json_: bool, **of_view: Any) -> None:
    from replication_lab.live.server import leading_to, serving

    with _session(**of_view) as session:
        with serving(session, port, lambda address: tell(f"for another tab or browser: {address}")) as address:
            _print_address(address, json_)
            with leading_to(address) if has_desktop() and not no_open else nullcontext() as file:
                if file:
                    click.launch(str(file))
                try:
                    session.wait()
                finally:
                    # While the server still runs: pages that are open say so.
                    session.end("lab live has ended")
    tell(f"{session.lab.name} was removed; the page has ended")


@command("watch")
@_of_view(0)
@options.of_duration(None)
@click.option("--format", "form", type=click.Choice([LINE, SCREEN, PROMETHEUS]), default=LINE, show_default=True)
@click.option("--port", type=click.IntRange(0, 65535))
@options.as_json
def watch(*, seconds: float | None, form: str, port: int | None, json_: bool, **of_view: Any) -> None:
    _refuse_of_another_format(form, seconds, port, json_)
    if form == PROMETHEUS:
        from replication_lab.live.server import measuring

        with _session(**of_view) as session, measuring(session, PORT if port is None else port) as address:
            _print_address(address, json_)
            session.wait()
        return
    on_screen = Live(console=out, auto_refresh=False, transient=False) if form == SCREEN else nullcontext()
    with _session(**of_view) as session, on_screen as shown:
        for state in _states(session, seconds):
            if shown:
                shown.update(screen(session.hello(), state), refresh=True)
            else:
                click.echo(msgspec.json.encode(state).decode() if json_ else line(state))
                sys.stdout.flush()


def _refuse_of_another_format(form: str, seconds: float | None, port: int | None, json_: bool) -> None:
    of_formats = (
        ("--duration", seconds is not None, (LINE, SCREEN)),
        ("--port", port is not None, (PROMETHEUS,)),
        ("--json", json_, (LINE, PROMETHEUS)),
    )
    for option, is_given, forms in of_formats:
        if is_given and form not in forms:
            raise LabError(f"{option} with --format {form}", f"--format {' or '.join(forms)}", "./lab watch --help")


def _states(session: ViewSession, seconds: float | None) -> Iterator[ViewedState]:
    """Yield each second's state until the lab is removed, or for so many seconds."""
    shown: queue.SimpleQueue[Shown] = queue.SimpleQueue()
    end, last = session.subscribe(shown.put), -1.0
    try:
        while seconds is None or last < seconds:
            state = shown.get()
            if isinstance(state, Gone):
                tell(state.why)
                session.wait()
                return
            # A command's effect is shown at once; here each sample is shown once.
            if state.sample.at > last:
                last = state.sample.at
                yield state
    finally:
        end()


def _report(folder: Path) -> None:
    from replication_lab import runs

    runs.report(str(folder))
    tell(f"recorded: {folders.from_here(folder)} (report.html)")


def _print_address(address: str, json_: bool) -> None:
    print_json({"address": address}) if json_ else click.echo(address)
    # The command goes on, and its output may be a pipe.
    sys.stdout.flush()


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
    table = Table("node", "role", "container", "state", "lag", box=None, pad_edge=False)
    for node in state.nodes:
        name = Text(f"{node.name}{' ←' if node.writes_here else ''}")
        table.add_row(name, node.role, node.at, Text(node.state, style=COLOURS[node.level]), _lag(node))
    return table


def _lag(node: ViewedNode) -> str:
    seconds = [] if node.lag_s is None else [f"{node.lag_s:g} s"]
    return ", ".join(seconds if node.behind is None else [*seconds, f"{node.behind} behind"])


def _links(state: ViewedState) -> Table:
    table = Table("link", "requested", "measured", "", box=None, pad_edge=False)
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
