"""The base of faults of links: a probe across each link, and the link's round trip without the fault."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import TypeVar

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.figures import three_digits
from replication_lab.model.core.proof import Proof
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.world import at_once, clock
from replication_lab.world.docker.lab import Lab

Made = TypeVar("Made")
# A link has recovered when its round trip is as before, within the spread of a busy machine.
NEAR_SHARE, NEAR_MS = 0.15, 10.0
# How long pings are repeated while all of them take longer: a machine may be starved for seconds.
PATIENCE_SECONDS = 8


class OnLinks:
    """A fault of links, with a connection across each that is made before it; LabError if a link does not work."""

    def __init__(self, lab: Lab, names: Sequence[str]):
        self.lab, self.running = lab, {name: lab.link(name) for name in names}
        self.probes = dict(zip(names, self.each(self.probe), strict=True))
        self.before_ms = dict(zip(names, self.each(self._trip), strict=True))

    def each(self, act: Callable[[str], Made]) -> list[Made]:
        """Call `act` for every link at once: across a WAN each call is mostly waiting."""
        return at_once.of_each(act, self.running)

    def inject(self) -> None:
        raise NotImplementedError

    def verify(self) -> list[Proof]:
        return self.each(self.acts)

    def acts(self, name: str) -> Proof:
        """Prove that the fault acts on a link."""
        raise NotImplementedError

    def recover(self) -> None:
        raise NotImplementedError

    def verify_recovered(self) -> list[Proof]:
        """Prove that each link carries new connections again, as fast as before."""
        return self.each(self._as_before)

    def probe(self, name: str) -> RoundTrip:
        return RoundTrip(self.lab.link(name))

    def renew(self, name: str) -> None:
        """Make a new connection across a link in place of one that has ended; LabError if that is not possible."""
        probe = self.probe(name)
        self.probes[name].close()
        self.probes[name] = probe

    def _trip(self, name: str) -> float:
        latency = self.lab.link(name).latency_ms()
        found = _shortest(self.probes[name], latency + _near(latency))
        if found is None:
            raise LabError(f"link {name} does not answer before the fault", "a working link", "./lab status")
        return found

    def _as_before(self, name: str) -> Proof:
        before = self.before_ms[name]
        near = _near(before)
        try:
            with closing(self.probe(name)) as probe:
                found = _shortest(probe, before + near)
        except LabError:
            found = None
        return Proof(
            what=f"{name} is as it was before the fault",
            expected=f"round trip about {three_digits(before)} ms",
            found="no answer" if found is None else f"{three_digits(found)} ms",
            ok=found is not None and abs(found - before) <= near,
        )

    def close(self) -> None:
        with ExitStack() as stack:
            for probe in self.probes.values():
                stack.callback(probe.close)


def _near(trip_ms: float) -> float:
    """Return by how many ms two readings of a round trip may differ."""
    return trip_ms * NEAR_SHARE + NEAR_MS


def _shortest(probe: RoundTrip, most_ms: float) -> float | None:
    """Return the shortest round trip in ms; ping again while all are above `most_ms`. None if none came back.

    A busy machine lengthens a round trip and never shortens one.
    """
    until = clock.timer() + PATIENCE_SECONDS
    trips = more = probe.pings()
    while more and min(trips) > most_ms and clock.timer() < until:
        more = probe.pings()
        trips = trips + more
    return min(trips, default=None)
