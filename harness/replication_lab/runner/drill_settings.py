"""How a drill sets the servers: variables, how the source waits, options of the replication."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.drill import Drill, Waiting, setting_of
from replication_lab.replication.kind import Nodes
from replication_lab.world.mysql.semisync import LONGEST_MS, SemiSync


@contextmanager
def applied(nodes: Nodes, drill: Drill) -> Iterator[None]:
    """Set the servers as the drill wants within the block, and restore what they had afterwards."""
    with ExitStack() as stack:
        if drill.settings:
            stack.enter_context(_variables(nodes, drill))
        if drill.semisync:
            stack.enter_context(_waiting(nodes, drill.semisync))
        if drill.options:
            stack.callback(nodes.set_options, {})
            nodes.set_options(drill.options)
        yield


def _of_node(drill: Drill, node: str) -> dict[str, int | str]:
    """Return the variables that a node gets: those of every node, then its own."""
    apart = [(*setting_of(name), value) for name, value in drill.settings.items()]
    every, own = ({variable: value for of, variable, value in apart if of == name} for name in ("", node))
    return every | own


@contextmanager
def _variables(nodes: Nodes, drill: Drill) -> Iterator[None]:
    asked = {name: found for name in nodes.names if (found := _of_node(drill, name))}
    before = {name: nodes.server(name).settings(*found) for name, found in asked.items()}
    for name, found in asked.items():
        nodes.server(name).set_global(**found)
    try:
        yield
    finally:
        for name, had in before.items():
            # A server that does not answer was killed, and starts with its own settings again.
            with suppress(LabError):
                nodes.server(name).set_global(**had)


@contextmanager
def _waiting(nodes: Nodes, asked: Waiting) -> Iterator[None]:
    source = SemiSync(nodes.writer())
    had = source.status()
    _set_waiting(source, asked)
    try:
        yield
    finally:
        with suppress(LabError):
            source.set(had.enabled, had.wait_point, had.timeout_ms, had.acknowledgements)


def _set_waiting(source: SemiSync, asked: Waiting) -> None:
    timeout = LONGEST_MS if asked.timeout_ms == "infinite" else asked.timeout_ms
    source.set(True, asked.wait_point, timeout, asked.acknowledgements)


def renew(nodes: Nodes, drill: Drill) -> None:
    """Set again what a server that was started again has lost; its role may be another one, and then waits for none."""
    for name in nodes.names if drill.settings else ():
        nodes.server(name).set_global(**_of_node(drill, name))
    if drill.semisync and not drill.changes_roles:
        _set_waiting(SemiSync(nodes.writer()), drill.semisync)
    if drill.options:
        nodes.set_options(drill.options)
