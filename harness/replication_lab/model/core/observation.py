"""What a witness saw in a span of time: whether something was so all through it, and when it was not."""

from collections.abc import Iterable

import msgspec

from replication_lab.model.core.proof import Proof

# By how much an observation may begin later or end earlier than the span, in seconds.
EDGE_SECONDS = 1.0
# The longest time without an observation. Readings are made twice a second; on a slow machine some come later.
GAP_SECONDS = 3.0
# How many of the moments at which it was not so are told.
TOLD = 3


class Happened(msgspec.Struct, frozen=True):
    """Something that was seen, `at` seconds after the load began."""

    at: float
    what: str

    def __str__(self) -> str:
        return f"at {self.at:.1f} s {self.what}"


class Observation(msgspec.Struct, frozen=True):
    """What was seen of one obligation between `begin` and `end`, in seconds since the load began.

    `gap_s` is the longest time within them without an observation: 0 for a log or a counter, which misses nothing.
    `contrary` are the moments at which it was not so.
    """

    obligation: str
    begin: float
    end: float
    gap_s: float = 0.0
    contrary: list[Happened] = []

    @classmethod
    def between(
        cls,
        obligation: str,
        zero: float,
        span: tuple[float, float],
        contrary: Iterable[tuple[float, str]],
        gap_s: float = 0.0,
    ) -> "Observation":
        """Return what was seen in a span; its ends, `zero` and the moments of `contrary` are of one clock, in s."""
        begin, end = (round(each - zero, 3) for each in span)
        told = [Happened(round(at - zero, 3), str(what)) for at, what in sorted(contrary)]
        return cls(obligation, begin, end, round(gap_s, 3), told)

    def proof(self, span: tuple[float, float]) -> Proof:
        """Return the proof of the obligation for a span of seconds.

        A slow moment of the machine also delays a witness: with no moment at which it was not so, only the time without
        an observation is missing.
        """
        missing, contrary = self._missing(*span), self._contrary()
        found = contrary or missing or f"so from {span[0]:.1f} to {span[1]:.1f} s"
        return Proof(self.obligation, found, ok=not (contrary or missing), slow=bool(missing) and not contrary)

    def doubts(self, span: tuple[float, float]) -> list[str]:
        """Return why this does not prove the obligation for a span of seconds; empty if it does."""
        if contrary := self._contrary():
            return [f"{self.obligation}: {contrary}"]
        missing = self._missing(*span)
        return [f"not verified: {self.obligation}: {missing}"] if missing else []

    def _missing(self, began: float, ended: float) -> str:
        if self.begin > began + EDGE_SECONDS or self.end < ended - EDGE_SECONDS:
            return f"observed from {self.begin:.1f} to {self.end:.1f} s, not from {began:.1f} to {ended:.1f} s"
        return f"{self.gap_s:.1f} s without an observation" if self.gap_s > GAP_SECONDS else ""

    def _contrary(self) -> str:
        more = f"; and {len(self.contrary) - TOLD} times more" if len(self.contrary) > TOLD else ""
        return "; ".join(map(str, self.contrary[:TOLD])) + more


def unproved(obligations: list[str], given: list[Observation], span: tuple[float, float]) -> list[str]:
    """Return why these obligations are not proved for a span: no observation, one with a gap, or a contrary one."""
    by_obligation = {each.obligation: each for each in given}
    doubts = [f"not verified: {each}: no witness observed it" for each in obligations if each not in by_obligation]
    return doubts + [doubt for each in given for doubt in each.doubts(span)]
