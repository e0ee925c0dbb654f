"""A link that carries only so much a second: put on, proved by a long answer before a load and after it, taken off."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from replication_lab.faults import toxic_calibration as toxic_fault
from replication_lab.model.record import Proof
from replication_lab.model.toxic import Toxic
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.world.docker.lab import Lab


@contextmanager
def narrowed(lab: Lab, link: str, toxic: Toxic) -> Iterator[Callable[[], Proof]]:
    """Within the block the toxic's rate is what the link carries. What is yielded measures whether it still does."""
    wire = lab.wire(link)
    with closing(RoundTrip(wire, lab.far_end(link))) as probe:
        try:
            toxic_fault.calibrated(wire, toxic, probe)
            yield lambda: _carries(link, toxic, probe)
        finally:
            toxic_fault.clear(wire)


def _carries(link: str, toxic: Toxic, probe: RoundTrip) -> Proof:
    found, ok = toxic_fault.realised(toxic, probe)
    return Proof(
        what=f"{link} is {toxic.name}", expected=f"{toxic.rate_kbps} KB/s, 10 % more or less", found=found, ok=ok
    )
