"""The nodes' views while clients write: each node is asked again and again, by connections of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.evidence import Looked, View
from replication_lab.replication.kind import LOOK_SECONDS, SILENT, Nodes
from replication_lab.world import clock

# The pause after a view, in seconds, and as a multiple of the time that it took: an emulated processor takes long for
# one, and what is measured must not be disturbed.
PAUSE_SECONDS, PAUSE = 1.0, 10
# A node that is frozen answers when it goes on; the drill does not wait for that.
LAST_ANSWER_SECONDS = 0.5


@contextmanager
def watching(nodes: Nodes, began: float) -> Iterator[list[Looked]]:
    """Yield a list that is filled within the block; `began` is the moment of the clock's timer that is its zero."""
    found: list[Looked] = []
    stop, ready = threading.Event(), threading.Barrier(len(nodes.names) + 1)
    # Each with a lab object of its own: a query to a frozen node locks its connection.
    apart = {name: type(nodes)(nodes.lab.another()) for name in nodes.names}
    threads = [
        threading.Thread(target=_watch, args=(own, name, began, found, stop, ready), name="watch", daemon=True)
        for name, own in apart.items()
    ]
    for thread in threads:
        thread.start()
    # A node that is silent already is not waited for.
    with suppress(threading.BrokenBarrierError):
        ready.wait(LOOK_SECONDS)
    try:
        yield found
    finally:
        stop.set()
        for thread in threads:
            thread.join(LAST_ANSWER_SECONDS)
        found.sort(key=lambda one: one.at)


def _watch(
    nodes: Nodes, name: str, began: float, found: list[Looked], stop: threading.Event, ready: threading.Barrier
) -> None:
    # Open the connection before the load starts: that costs much more than asking.
    _view(nodes, name)
    with suppress(threading.BrokenBarrierError):
        ready.wait(LOOK_SECONDS)
    while not stop.is_set():
        asked = clock.timer()
        view = _view(nodes, name)
        took = clock.timer() - asked
        # What is answered after the end belongs to another state.
        if not stop.is_set():
            found.append(Looked(round(clock.timer() - began, 3), name, view))
        # A silent node was waited for, and did no work.
        clock.pause(PAUSE_SECONDS if view.error else max(PAUSE_SECONDS, PAUSE * took), unless=stop)


def _view(nodes: Nodes, name: str) -> View:
    try:
        return nodes.view(name)
    except LabError:
        # A restarted container has another port.
        nodes.lab.refresh()
        return SILENT
