"""Check before a lab with virtual machines or many nodes, or several labs, that this host has enough memory."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.storage import Storage
from replication_lab.model.lab.topology import Topology
from replication_lab.world import catalogue, host
from replication_lab.world.disks import overlay
from replication_lab.world.docker import reach, servers
from replication_lab.world.machines import vm

# The least MiB that a server of an unknown image needs; engines.yaml has those of the engines.
SERVER_MIB = 100


def check(labs: Sequence[tuple[Topology, str, Mapping[str, Storage]]], site: str = "") -> None:
    """Refuse labs (topology, its servers, storage of its nodes) that do not fit into a site's memory at once.

    The host would kill a server.
    """
    own = [mib for topology, engine, storage in labs for mib in _servers(topology, engine, storage)]
    machines = sum(_machines(topology, storage) for topology, _, storage in labs)
    needed = sum(own) + (machines * vm.each_mib() if machines else 0)
    available = host.available_mib(reach.machine_files(host.MEMORY, site=site))
    if available < needed:
        counted = {"server": len(own), "virtual machine": machines}
        told = " and ".join(f"{n} {what}{'s' if n > 1 else ''}" for what, n in counted.items() if n)
        several = len(labs) > 1
        # From the first on.
        fitting = sum(total <= available for total in accumulate(own))
        fit = "" if several or machines else f", enough for {fitting} of them"
        raise LabError(
            f"{available} MiB of memory are available{fit}",
            f"at least {needed} MiB, for {told}" + (" in labs that are all up at the same time" if several else ""),
            f"{'vary fewer engines, topologies or disks; or ' if several else ''}./lab status, then stop another lab",
        )


def _servers(topology: Topology, engine: str, storage: Mapping[str, Storage]) -> list[int]:
    """Return the least MiB of each of a lab's servers that is in no virtual machine, in the order of its nodes."""
    if replication.kind_of(topology).in_machines:
        return []
    named = {node: servers.named(text).engine for node, text in servers.of_nodes(topology, engine).items()}
    return [
        catalogue.engine(each).idle_mib if each else SERVER_MIB
        for node, each in named.items()
        if node not in storage or storage[node].backend != overlay.MACHINE
    ]


def _machines(topology: Topology, storage: Mapping[str, Storage]) -> int:
    if replication.kind_of(topology).in_machines:
        return len(topology.nodes)
    return sum(each.backend == overlay.MACHINE for each in storage.values())
