"""How a drill sets the servers: variables, how the source waits, options of the replication; and who watches that."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.drill import Drill
from replication_lab.replication.kind import Nodes
from replication_lab.witnesses.sampled import Sampled
from replication_lab.witnesses.variables import variables
from replication_lab.world.mysql.semisync import SemiSync


@contextmanager
def applied(nodes: Nodes, drill: Drill) -> Iterator[None]:
    """Set the servers as the drill wants within the block, and restore what they had afterwards."""
    with ExitStack() as stack:
        if drill.settings:
            stack.enter_context(_variables(nodes, drill))
        if drill.semisync:
            stack.enter_context(_waiting(nodes, drill))
        if drill.options:
            stack.enter_context(nodes.optioned(drill.options))
        yield


@contextmanager
def _variables(nodes: Nodes, drill: Drill) -> Iterator[None]:
    """Set the drill's variables on every node within the block."""
    servers = {name: nodes.lab.node(name) for name in nodes.names}
    before = {name: node.server().settings(*drill.settings) for name, node in servers.items()}
    for node in servers.values():
        node.server().set_global(**drill.settings)
    try:
        yield
    finally:
        for name, had in before.items():
            # The server returns numbers as strings, but accepts only numbers. A server that does not answer was
            # killed, and starts with its own settings again.
            numbers = {key: int(value) if value.isdecimal() else value for key, value in had.items()}
            with suppress(LabError):
                servers[name].server().set_global(**numbers)


@contextmanager
def _waiting(nodes: Nodes, drill: Drill) -> Iterator[None]:
    """Set the source's semi-sync wait point and timeout to the drill's within the block."""
    source, asked = nodes.writer(), drill.semisync
    had = SemiSync(source).status()
    if asked:
        SemiSync(source).set(True, asked.wait_point, asked.timeout_ms)
    try:
        yield
    finally:
        with suppress(LabError):
            SemiSync(source).set(had.enabled, had.wait_point, had.timeout_ms)


def renew(nodes: Nodes, drill: Drill) -> None:
    """Set again what a server that was started again has lost; its role may be another one, and then waits for none."""
    if drill.settings:
        for name in nodes.names:
            nodes.lab.node(name).server().set_global(**drill.settings)
    if drill.semisync and not drill.changes_roles:
        SemiSync(nodes.writer()).set(True, drill.semisync.wait_point, drill.semisync.timeout_ms)


def witnesses(nodes: Nodes, drill: Drill) -> list[Sampled]:
    """Return the witness of the variables that the drill sets, if it sets any."""
    names = {name: list(drill.settings) for name in nodes.names if drill.settings}
    if drill.semisync:
        source = nodes.writer()
        # A source that is replaced may lose its role, and does not wait any more.
        kept = SemiSync(source).how_it_waits[1 if drill.changes_roles else 0 :]
        names.setdefault(source.name, []).extend(kept)
    return [variables(nodes.lab, names)] if names else []
