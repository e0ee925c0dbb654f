"""How a drill sets the servers: variables, how the source waits, options of the replication."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.drill import Drill
from replication_lab.replication.kind import Nodes
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
            # A server that does not answer was killed, and starts with its own settings again.
            with suppress(LabError):
                servers[name].server().set_global(**had)


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
