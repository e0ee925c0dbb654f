"""A cut: the proxies of links are switched off, so that connections end and no new one gets through."""

from collections.abc import Sequence
from contextlib import closing

from replication_lab.faults._links import OnLinks
from replication_lab.faults.fault import fault
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import LINKS
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
        return Proof(
            what=f"{name} is cut",
            expected="nothing gets through",
            found=" and ".join(through) or "nothing gets through",
            ok=not through,
        )

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
