"""The requirements of the faults of a replicated disk."""

from replication_lab import replication
from replication_lab.model.drill.fault import Need
from replication_lab.replication.drbd import Machines

REPLICATED_DISK = Need(
    "machines with a replicated disk",
    lambda topology, _: issubclass(replication.kind_of(topology), Machines),
    "{fault} in {topology}",
    "a topology of drbd",
)
