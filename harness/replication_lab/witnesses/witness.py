"""The witnesses of a lab: who they are, and observing with all of them."""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.observation import Observation
from replication_lab.witnesses import servers
from replication_lab.witnesses.acts import DISKS_KEPT, ContainerWitness, LinkWitness, disk_requests
from replication_lab.witnesses.confinement import UNCONFINED, confinement
from replication_lab.witnesses.statements_of_others import UNDISTURBED, statements_of_others
from replication_lab.witnesses.told_changes import KEPT_RULES, UNCHANGED, packet_rules, replicated_disks
from replication_lab.world.docker.lab import Lab

# Who observes every load and every drill, by what is proved.
ALWAYS: dict[str, Callable[[Lab], "Witness"]] = {
    ContainerWitness.obligation: ContainerWitness,
    LinkWitness.obligation: LinkWitness,
    servers.CROSSES: servers.paths,
    servers.KEPT: servers.variables,
    UNDISTURBED: statements_of_others,
    servers.HELD: servers.held_states,
    servers.STAYED: servers.members,
    UNCHANGED: replicated_disks,
    KEPT_RULES: packet_rules,
    DISKS_KEPT: disk_requests,
    UNCONFINED: confinement,
}
OBLIGATIONS = list(ALWAYS)


class Witness(Protocol):
    """Observes one obligation from its making until `close`, by something that misses nothing, or by many readings."""

    obligation: str

    def observation(self, zero: float) -> Observation:
        """Return what was seen until now; `zero` is the moment of the clock's timer that times are counted from."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Witnesses:
    """Several witnesses that observe the same lab."""

    each: list[Witness]

    def observations(self, zero: float) -> list[Observation]:
        """Return what each saw; nothing of one that cannot tell, so that its obligation is not proved."""
        found = []
        for witness in self.each:
            with suppress(LabError):
                found.append(witness.observation(zero))
        return found


@contextmanager
def observing(lab: Lab, across: Collection[str] | None = None) -> Iterator[Witnesses]:
    """Observe a lab within the block; `across` names the links that replicas must read across, if not all."""
    kinds = ALWAYS | {servers.CROSSES: partial(servers.paths, across=across)}
    with ExitStack() as stack:
        yield Witnesses([stack.enter_context(closing(kind(lab))) for kind in kinds.values()])
