"""Proofs that commits waited for a round trip: the link delayed them."""

from replication_lab.model.core.figures import three_digits
from replication_lab.model.core.proof import Proof

# The two directions of a link differ by their timers; a commit that waited for no answer takes a hundredth.
WAITED_SHARE = 0.9
# What an idle link adds to a round trip, and may not add under load: a short latency is smaller by that, never by half.
LINK_MS = 0.5


def least_ms(round_trip_ms: float) -> float:
    """Return how long a commit takes at least that waits for a round trip, in ms."""
    return min(WAITED_SHARE * round_trip_ms, max(round_trip_ms - LINK_MS, round_trip_ms / 2))


def waited(latency_ms: float, round_trip_ms: float) -> bool:
    """Return whether a commit took as long as the round trip that it should have waited for."""
    return latency_ms >= least_ms(round_trip_ms)


def none_too_fast(fastest_ms: float | None, round_trip_ms: float) -> list[Proof]:
    """Prove that the fastest commit waited, where there was a commit and the link has a round trip."""
    if fastest_ms is None or not round_trip_ms:
        return []
    return [
        Proof(
            what="no commit was answered sooner than a round trip",
            expected=f"at least {three_digits(least_ms(round_trip_ms))} ms",
            found=f"{three_digits(fastest_ms)} ms",
            ok=waited(fastest_ms, round_trip_ms),
        )
    ]


def per_commit(fastest_ms: float, trip_ms: float) -> str:
    """Return how long commits took at least, also as a number of round trips if the link has one."""
    trips = f" ({fastest_ms / trip_ms:.2f} round trips)" if trip_ms else ""
    return f"at least {three_digits(fastest_ms)} ms per commit{trips}"
