"""Check, before a lab with virtual machines or any of several labs starts, that this host has enough memory."""

from collections.abc import Mapping, Sequence

from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.storage import Storage
from replication_lab.model.lab.topology import Topology
from replication_lab.world import host
from replication_lab.world.disks import overlay
from replication_lab.world.docker import machine
from replication_lab.world.machines import vm

# The least MiB that a server needs: those of MariaDB after its start, without rows.
SERVER_MIB = 100


def check(labs: Sequence[tuple[Topology, Mapping[str, Storage]]]) -> None:
    """Refuse labs (topology, storage of its nodes) that do not fit into memory at once: the host would kill one."""
    machines = sum(_machines(topology, storage) for topology, storage in labs)
    servers = sum(len(topology.nodes) for topology, _ in labs) - machines
    needed = servers * SERVER_MIB + (machines * vm.each_mib() if machines else 0)
    elsewhere = machine.facts().elsewhere
    # How much of another machine's memory is free is not known; what it has bounds it.
    available = machine.facts().memory_mib if elsewhere else host.available_mib()
    if available < needed:
        counted = {"server": servers, "virtual machine": machines}
        told = " and ".join(f"{n} {what}{'s' if n > 1 else ''}" for what, n in counted.items() if n)
        several = len(labs) > 1
        raise LabError(
            f"{available} MiB of memory are {'all that the engine has' if elsewhere else 'available'}",
            f"at least {needed} MiB, for {told}" + (" in labs that are all up at the same time" if several else ""),
            f"{'vary fewer engines, topologies or disks; or ' if several else ''}./lab status, then stop another lab",
        )


def _machines(topology: Topology, storage: Mapping[str, Storage]) -> int:
    """Return how many of a lab's nodes are virtual machines."""
    if replication.kind_of(topology).in_machines:
        return len(topology.nodes)
    return sum(each.backend == overlay.MACHINE for each in storage.values())
