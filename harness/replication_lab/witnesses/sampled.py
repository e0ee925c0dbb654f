"""A witness by many readings: for what no log and no counter tells."""

import threading
from collections.abc import Callable, Mapping

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.observation import Happened, Observation
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server

EVERY_SECONDS, ANSWER_SECONDS = 0.3, 2.0
# Returns what is not as it should be now, in words, as a server tells; LabError of a server that does not answer.
Reading = Callable[[Server], list[str]]


class Sampled:
    """Reads again and again from its making on, each node in a thread of its own."""

    def __init__(self, obligation: str, lab: Lab, readings: Mapping[str, Reading]) -> None:
        """Begin to read; `readings` are by node."""
        # A query to a frozen node locks its connection.
        self.obligation, self._lab = obligation, lab.another()
        self._contrary: list[tuple[float, str]] = []
        self._gap_s, self._stop, self._began = 0.0, threading.Event(), clock.timer()
        # When each node answered last; None of one that does not answer.
        self._last: dict[str, float | None] = dict.fromkeys(readings, self._began)
        self._threads = [
            threading.Thread(target=self._read, args=(node, reading), name=f"reads {node}", daemon=True)
            for node, reading in readings.items()
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, node: str, reading: Reading) -> None:
        server: Server | None = None
        while not self._stop.is_set():
            try:
                server = server or self._lab.node(node).server().answering_within(ANSWER_SECONDS)
                wrong, now = reading(server), clock.timer()
            except LabError:
                # A node that a fault ended or froze does nothing that would have to be seen. It may return by another
                # port.
                self._lab.refresh()
                self._last[node] = server = None
            else:
                self._gap_s = max(self._gap_s, now - (self._last[node] or now))
                self._contrary += [(now, each) for each in wrong]
                self._last[node] = now
            clock.pause(EVERY_SECONDS, unless=self._stop)

    def observation(self, zero: float) -> Observation:
        """Return what was seen until now; `zero` is the moment of the clock's timer that times are counted from."""
        # A thread that ended by an error leaves a gap until now.
        now = clock.timer()
        gaps = [now - last for last in self._last.values() if last is not None]
        return Observation(
            self.obligation,
            begin=round(self._began - zero, 3),
            end=round(now - zero, 3),
            gap_s=round(max([self._gap_s, *gaps]), 3),
            contrary=[Happened(round(at - zero, 3), what) for at, what in sorted(self._contrary)],
        )

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(ANSWER_SECONDS)
