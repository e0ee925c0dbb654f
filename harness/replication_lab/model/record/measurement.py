"""What was measured once: its figures, the evidence of its faults, the noise meanwhile, quantiles of latencies."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from replication_lab.model.core.event import Event
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.timeline import quantile
from replication_lab.model.record.load_timeline import LoadTimeline

# What can be measured; sums and squares of it are numbers, too.
Number = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]


class Spread(msgspec.Struct, frozen=True):
    """Several readings of one number: smallest, middle, largest and how many."""

    min: float
    p50: float
    max: float
    n: int


class SeenToxic(msgspec.Struct, frozen=True, kw_only=True):
    """A toxic on a link and the proof that it acted: `asked`, `before`, `during` and `after` share `unit`.

    The unit is ms for round trips. For lost packets it is `% of packets down` or `% of packets up`, for others
    `% of packets duplicated down` or `% of packets late down`, for example; `during` then has the ends of the 99.99 %
    interval as `min` and `max`, the share as `p50`, and the number of packets as `n`.
    """

    link: str
    toxic: str
    unit: str
    asked: float | None = None
    before: float | None = None
    during: Spread | None = None
    after: float | None = None
    seen: bool
    why: str = ""
    # Not seen because the round trip was longer than requested, as in a slow moment of the machine.
    slow: bool = False

    @property
    def doubt(self) -> str | None:
        if self.seen:
            return None
        found = f"{self.during.p50:g} {self.unit}" if self.during else "not measured"
        asked = f"requested {self.asked} {self.unit} of {self.toxic} on link {self.link}"
        return f"fault not seen: {self.why or f'{asked}, found {found} during the load'}"


class Measurement(Event, frozen=True, kw_only=True, tag="measurement"):
    """One case, measured once.

    `figures` are single numbers by name: throughput (1/s), latency_p50_ms, rtt_p50_ms, counts. A figure that could not
    be computed is None (JSON has no NaN). `samples` are the raw readings, such as latency_ms and rtt_ms. `timeline` is
    the load second by second; None for a load without transactions, and in records before schema 6. `findings` are
    examples in words of what a checker counted, by the name of the figure. `site` is the endpoint of the engine that it
    was measured at with `lab run --sites`, empty for the command's own.
    """

    engine: str
    round: int
    case: str
    figures: dict[str, Number | None] = {}
    samples: Mapping[str, list[Number]] = {}
    faults: list[SeenToxic] = []
    proofs: list[Proof] = []
    noise: Noise = Noise()
    doubts: list[str] = []
    at: str = ""
    seconds: float = 0.0
    timeline: LoadTimeline | None = None
    findings: Mapping[str, str] = {}
    site: str = ""

    @property
    def counts(self) -> bool:
        """Whether its figures are used: it was quiet, or its noise was accepted, and no slow moment spoiled a proof."""
        return self.noise.counts and not self.slow

    @property
    def slow(self) -> str:
        """Return the proofs that only a slow moment of the machine may have spoiled.

        Empty if none failed, if something else failed too, or if noise was accepted.
        """
        parts: list[SeenToxic | Proof] = [*self.faults, *self.proofs]
        failed = [part for part in parts if part.doubt]
        only_slow = failed and not self.doubts and all(part.slow for part in failed)
        return "; ".join(str(part.doubt) for part in failed) if only_slow and not self.noise.accepted else ""

    @property
    def disturbed(self) -> str:
        """Return what a noisy or slow machine did to it; empty if nothing. Accepted noise counts too."""
        return self.slow if self.noise.quiet else self.noise.why or "noisy host"

    @property
    def reasons_to_doubt(self) -> list[str]:
        """All reasons to distrust this measurement, except noise that was not accepted."""
        parts: list[SeenToxic | Proof] = [*self.faults, *self.proofs]
        why = self.noise.why if not self.noise.readable else f"measured on a noisy machine: {self.noise.why}"
        of_noise = [why] if self.noise.accepted else []
        return [*self.doubts, *(part.doubt for part in parts if part.doubt), *of_noise]

    def unproved(self, obligations: list[str]) -> list[str]:
        """Return which of these obligations it has no proof of, whatever a proof would say."""
        given = {proof.what for proof in self.proofs}
        return [f"not verified: {each}: no witness observed it" for each in obligations if each not in given]


# With fewer values the 99.9th percentile would be almost the same as the maximum.
FEWEST_FOR_P999 = 1000
SHARES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}


class Ordered(Sequence[float]):
    """Values of several parts in order of size. Each distinct one is held once: a long run has millions of them."""

    def __init__(self, parts: Iterable[Sequence[float]]) -> None:
        import numpy as np  # only here: commands that judge nothing need not wait for it

        self._values, many = np.empty(0), np.empty(0)
        for part in parts:
            self._values, places = np.unique(np.concatenate([self._values, part]), return_inverse=True)
            many = np.bincount(places, np.concatenate([many, np.ones(len(part))])).astype(float)
        self._ends = np.cumsum(many)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return float(self._values[self._ends.searchsorted(index, side="right")])


def p999(latencies: Ordered) -> float | None:
    """Return the 99.9th percentile; None where there are too few latencies for one."""
    return quantile(latencies, 0.999) if len(latencies) >= FEWEST_FOR_P999 else None


def pooled(measurements: Iterable[Measurement]) -> dict[str, float]:
    """Return the minimum, percentiles and the maximum of the latencies of several measurements together, in ms."""
    every = Ordered(each.samples.get("latency_ms", []) for each in measurements)
    if not every:
        return {}
    usual = {name: quantile(every, share) for name, share in SHARES.items()}
    found = {"min_ms": every[0], **usual, "p99.9_ms": p999(every), "max_ms": every[len(every) - 1]}
    return {name: ms for name, ms in found.items() if ms is not None}
