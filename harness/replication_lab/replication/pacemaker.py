"""Two machines whose cluster manager says which of them serves: it is waited for, and told nothing but who begins."""

from collections.abc import Mapping

from replication_lab.replication import pacemaker_operations
from replication_lab.replication.drbd import Machines
from replication_lab.replication.kind import register
from replication_lab.world import pacemaker
from replication_lab.world.docker.lab import Proof


@register("drbd", manager="pacemaker")
class ManagedMachines(Machines):
    """The machines of a DRBD resource under Pacemaker; clients go to machines, of which one serves."""

    whole = "in the cluster, UpToDate on both disks"
    images = (*Machines.images, "arbiter", "load")

    def prove(self, toxics: Mapping[str, str]) -> list[Proof]:
        return [*super().prove(toxics), *pacemaker_operations.prove(self.lab)]

    def is_whole(self, name: str) -> bool:
        """By what this machine says of the cluster, and by both disks."""
        status = pacemaker.cluster(self.lab).status(name)
        return status.quorum and pacemaker_operations.both_have_disks(status)[0] and super().is_whole(name)

    def let_serve(self, name: str) -> None:
        serving = pacemaker.cluster(self.lab).wait_until_served_by(*self.names)
        if serving != name:
            pacemaker_operations.standby(self.lab, serving)
            pacemaker_operations.online(self.lab, serving)
            pacemaker.cluster(self.lab).wait_until_served_by(name)

    def promote(self, name: str) -> None:
        pacemaker.cluster(self.lab).wait_until_served_by(name)

    def rejoin(self) -> None:
        """A machine that its watchdog has ended is off until somebody starts it."""
        for name in self.names:
            if self.lab.state_of(name)[0] == "exited":
                self.lab.start_again(name)
        pacemaker_operations.wait_until_whole(self.lab)
