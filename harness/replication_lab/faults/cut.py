"""Links that are cut once or repeatedly: without their proxies connections end, and no new one gets through."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

from replication_lab.faults._links import OnLinks
from replication_lab.faults.fault import fault
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import LINKS
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab


@fault(
    "cut",
    acts_on=LINKS,
    does="open connections end, and new connections are refused",
    proof="neither an old nor a new connection gets an answer; after recovery: the round trip is as before",
)
class Cut(OnLinks):
    """Links to cut. Recovery switches on each link that `inject` switched off."""

    def __init__(self, lab: Lab, links: Sequence[str]):
        super().__init__(lab, links)
        self._cut: list[str] = []

    def inject(self) -> None:
        # A second call must not forget what the first one switched off.
        self._cut += [name for name, link in self.running.items() if link.enabled()]
        self.each(lambda name: self.running[name].cut())

    def verify_still_cut(self) -> list[Proof]:
        """Prove that each link is cut now, by a new connection only: the old one ended at the first cut."""
        return self.each(lambda name: self.acts(name, anew=True))

    def acts(self, name: str, anew: bool = False) -> Proof:
        """Prove that a link's connection has ended and no new one is possible; the proxy's state is no proof."""
        old = None if anew else self.probes[name].ping()
        through = [
            *(["the old connection still gets an answer"] if old is not None else []),
            *(["a new connection still gets an answer"] if self._connects(name) else []),
            # Only if the far end works: a dead far end answers in no case.
            *(["the link is switched on"] if self.running[name].lets_through() else []),
        ]
        nothing = "nothing gets through"
        return Proof.same(f"{name} is cut", " and ".join(through) or nothing, nothing)

    def _connects(self, name: str) -> bool:
        try:
            with closing(self.probe(name)):
                return True
        except LabError:
            return False

    def recover(self) -> None:
        for name in self._cut:
            self.running[name].enable()
        self._cut = []


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
