"""Another toxic on several links at once, added to the toxics already there: a black hole, a slower line."""

from collections.abc import Callable, Sequence
from statistics import median

from replication_lab.faults._replaced import ReplacedToxics
from replication_lab.faults.fault import fault
from replication_lab.faults.packet_watch import realised_packets, said_of_packets
from replication_lab.faults.toxic_rate import realised_rate
from replication_lab.faults.toxic_watch import JITTER_PINGS, SILENCE_SECONDS, said_of_trips, varies_enough
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.figures import three_digits
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import LINKS, Setting
from replication_lab.model.lab.toxic import PACKET_KINDS
from replication_lab.world import catalogue
from replication_lab.world.docker.lab import Lab

# A share of the requested latency. The proxy's timers are late, never early, and the link's own round trip varies.
SEEN_SHARE = 0.9
# The number of round trips that prove a delay without a jitter.
TRIPS = 3


def _check_toxic(where: str, toxic: str) -> None:
    catalogue.toxic(toxic, f"toxic in {where}")


TOXIC = Setting("toxic", "", "the toxic {}", _check_toxic)


@fault(
    "toxic",
    acts_on=LINKS,
    does="adds a toxic to those of the link: a condition in numbers (`40ms+20mbit`) or a file of `toxics/`; it sets a "
    "latency or a rate, loses, duplicates or reorders packets, makes a black hole or a one-way link, or resets "
    "connections",
    proof="round trips are longer by the toxic's delay or get no answer, the rate is not exceeded, the kernel counts "
    "the share of the packets, or connections end; after recovery: toxics and round trip are as before the fault",
    settings=(TOXIC,),
)
class AddToxic(ReplacedToxics):
    """Links that get another toxic; recovery removes only that toxic."""

    def __init__(self, lab: Lab, links: Sequence[str], toxic: str):
        super().__init__(lab, links)
        self.toxic = catalogue.toxic(toxic)
        self._silent: set[str] = set()

    def inject(self) -> None:
        self.each(self._add)

    def _add(self, name: str) -> None:
        there = {(found.type, found.stream) for found in self.running[name].toxics()}
        for body in self.toxic.of_packets:
            if (body.type, body.stream) in there:
                raise LabError(
                    f"link {name} already has a {PACKET_KINDS[body.type]}, and {self.toxic.name} would replace it",
                    "a link without it, or the fault `condition`",
                    "./lab drill",
                )
        for body in self.toxic.bodies:
            self.running[name].add(body)

    def acts(self, name: str) -> Proof:
        """Prove the toxic by a measurement across a link; in later calls, that it is still there."""
        if self.toxic.silences:
            return self._is_silent(name)
        if self.toxic.resets:
            return self._is_reset(name)
        # A toxic with several effects is proved by each; the first that fails is reported.
        proofs = [proof(name) for proof in self._effects()]
        return next((each for each in proofs if not each.ok), proofs[-1])

    def _effects(self) -> list[Callable[[str], Proof]]:
        """Return the proofs of the toxic's effects. Without any of them, the missing delay fails."""
        others: list[Callable[[str], Proof]] = [self._is_narrow] if self.toxic.rate_kbps else []
        others += [self._acts_on_packets] if self.toxic.of_packets else []
        return [self._is_slow, *others] if self.toxic.round_trip_ms or not others else others

    def _acts_on_packets(self, name: str) -> Proof:
        found, ok = realised_packets(self.toxic, self.running[name])
        return Proof(
            what=f"{name} also has the toxic {self.toxic.name}",
            expected=said_of_packets(self.toxic),
            found=found,
            ok=ok,
        )

    def _is_slow(self, name: str) -> Proof:
        jitter = self.toxic.jitter_ms
        least = self.before_ms[name] + SEEN_SHARE * self.toxic.round_trip_ms - jitter
        there, trips = self._is_there(name), self.probes[name].pings(JITTER_PINGS if jitter else TRIPS)
        said = said_of_trips(trips) if trips else "no answer"
        return Proof(
            what=f"{name} also has the toxic {self.toxic.name}",
            expected=f"a round trip of at least {three_digits(least)} ms"
            + (f", and a jitter of {three_digits(jitter)} ms" if jitter else ""),
            found=said if there else "the toxic was removed from one of its ports",
            ok=there and bool(trips) and self.toxic.round_trip_ms > 0 and self._delays(trips, least),
        )

    def _delays(self, trips: Sequence[float], least: float) -> bool:
        # With a jitter as long as the delay, single round trips may be as before. Their differences prove the toxic.
        return median(trips) >= least and (not self.toxic.jitter_ms or varies_enough(trips, self.toxic.jitter_ms))

    def _is_narrow(self, name: str) -> Proof:
        there, (carried, ok) = self._is_there(name), realised_rate(self.toxic, self.probes[name])
        return Proof(
            what=f"{name} also has the toxic {self.toxic.name}",
            expected=f"{self.toxic.rate_kbps} KB/s",
            found=carried if there else "the toxic was removed",
            ok=there and ok,
        )

    def _is_there(self, name: str) -> bool:
        return self.running[name].carries({body.name for body in self.toxic.bodies})

    def _is_silent(self, name: str) -> Proof:
        # A probe without an answer blocks its connection; later calls can only check that the toxic is present.
        answered = False if name in self._silent else self._answers(name)
        there = self._is_there(name)
        return Proof(
            what=f"{name} is a black hole",
            expected=f"no answer within {SILENCE_SECONDS:g} s",
            found="an answer" if answered else "no answer" if there else "the toxic was removed",
            ok=there and not answered,
        )

    def _is_reset(self, name: str) -> Proof:
        # A kill of the far end also ends the connection for good, so the toxic itself must be present.
        answered, there = self.probes[name].ping() is not None, self._is_there(name)
        return Proof(
            what=f"{name} ends connections",
            expected="the connection ends",
            found="an answer" if answered else "the connection ended" if there else "the toxic was removed",
            ok=there and not answered,
        )

    def _answers(self, name: str) -> bool:
        try:
            trip = self.probes[name].answer_within(SILENCE_SECONDS)
        except TimeoutError:
            trip = 0.0
        # A connection that ended, for example by a kill of its far end, has no round trip and proves nothing.
        if not trip:
            self._silent.add(name)
        return bool(trip)

    def recover(self) -> None:
        self.each(self._take_off)

    def _take_off(self, name: str) -> None:
        there = {found.name for found in self.running[name].toxics()}
        had = {body.name for body in self._had[name]}
        for body in self.toxic.bodies:
            if body.name in there - had:
                self.running[name].remove(body.name)
