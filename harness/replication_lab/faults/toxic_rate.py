"""The evidence of a rate: the data that cross the link in a second, on all connections together or on one."""

from replication_lab.faults.toxic_calibration import rate_of
from replication_lab.model.lab.toxic import Toxic, ToxicBody
from replication_lab.probes.round_trip import RoundTrip

# A rate is proved when it is within this share of the requested one.
RATE_PROVED = 0.1
# A busy machine makes a link slower and never faster; a slow measurement is repeated.
TRIES = 3
WAYS = {"downstream": "down", "upstream": "up"}


def realised_rate(toxic: Toxic, probe: RoundTrip) -> tuple[str, bool]:
    """Return the measured rate of the link in words, and whether it is the requested one.

    The rate of a link is measured by several connections at once in each direction, the rate of each connection by one.
    """
    asked = toxic.rate_kbps or 0
    if not toxic.link_rates:
        rate = rate_of(probe, asked, toxic.round_trip_ms)
        return f"{rate:.0f} KB/s (requested {asked} KB/s)", abs(rate / asked - 1) <= RATE_PROVED
    said, ok = [], True
    for body in toxic.link_rates:
        asked = int(body.attributes["rate"])
        rate = _sum_of_rates(probe, body, asked, toxic.round_trip_ms)
        said.append(f"{rate:.0f} KB/s {WAYS[body.stream]}")
        ok = ok and abs(rate / asked - 1) <= RATE_PROVED
    asked_for = " and ".join(dict.fromkeys(str(body.attributes["rate"]) for body in toxic.link_rates))
    found = f"{', '.join(said)} (requested {asked_for} KB/s)"
    if not all(map(probe.link.shares, toxic.link_rates)):
        return f"{found}, but the ports of the link do not share the rate", False
    return found, ok


def _sum_of_rates(probe: RoundTrip, body: ToxicBody, asked: int, round_trip_ms: float) -> float:
    rate = 0.0
    for _ in range(TRIES):
        rate = max(rate, probe.sum_of_rates(body, round_trip_ms))
        if rate >= asked * (1 - RATE_PROVED):
            break
    return rate
