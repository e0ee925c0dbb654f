"""The requirements of the faults of a replicated disk."""

from replication_lab import replication
from replication_lab.model.drill.fault import Need

REPLICATED_DISK = Need(
    "machines with a replicated disk",
    lambda topology, _: bool(replication.kind_of(topology).protocols),
    "{fault} in {topology}",
    "a topology of drbd",
)
