"""A flapping link: cut and restored faster than replication can recover."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from replication_lab.faults.cut import Cut
from replication_lab.faults.fault import fault
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import LINKS
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab

OFF_SECONDS, ON_SECONDS = 0.4, 1.2


@fault(
    "flap",
    acts_on=LINKS,
    does="the link is cut for 0.4 s and works for 1.2 s, repeatedly",
    proof="at each cut, no new connection is possible; after recovery: the round trip is as before",
)
class Flap:
    """Links that are cut and restored repeatedly. Recovery switches on each link that is still cut."""

    def __init__(self, lab: Lab, links: Sequence[str]):
        self._cut = Cut(lab, links)
        self._seen: list[Proof] = []
        self._told = 0
        self._stop, self._pool = threading.Event(), ThreadPoolExecutor(1, thread_name_prefix="flap")
        self._flapping: Future[None] | None = None

    def inject(self) -> None:
        flapping = self._flapping = self._pool.submit(self._flap)
        clock.wait_until(lambda: bool(self._seen) or flapping.done(), "the link to be cut for the first time", 10)

    def _flap(self) -> None:
        while not self._stop.is_set():
            self._cut.inject()
            self._seen += self._cut.verify_still_cut()
            clock.pause(OFF_SECONDS, unless=self._stop)
            self._cut.recover()
            clock.pause(ON_SECONDS, unless=self._stop)

    def verify(self) -> list[Proof]:
        """Return a proof of each interruption since the last call, by a connection that failed.

        If there was none since then, return the proof of the latest interruption again.
        """
        new = self._seen[self._told :]
        self._told += len(new)
        return new or self._seen[-1:]

    def recover(self) -> None:
        """Switch the links on again, also if the flapping failed; then raise its error."""
        self._stop.set()
        try:
            if self._flapping is not None:
                self._flapping.result()
        finally:
            self._cut.recover()

    def verify_recovered(self) -> list[Proof]:
        return self._cut.verify_recovered()

    def close(self) -> None:
        self._stop.set()
        self._pool.shutdown()
        self._cut.close()
