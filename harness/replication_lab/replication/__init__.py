"""When every copy is there again, for each kind of replication: one file a kind."""

from replication_lab.replication.drbd import Machines
from replication_lab.replication.galera import Cluster
from replication_lab.replication.group import Group
from replication_lab.replication.kind import Nodes
from replication_lab.replication.pacemaker import ManagedMachines
from replication_lab.replication.source_replica import Followers
from replication_lab.replication.standalone import Alone
from replication_lab.world.docker.lab import Lab

KINDS = {"none": Alone, "async": Followers, "semisync": Followers, "galera": Cluster, "group": Group, "drbd": Machines}
# The same under a cluster manager.
MANAGED_KINDS = {"drbd": ManagedMachines}


def of(lab: Lab) -> Nodes:
    """A lab's nodes, as its kind of replication keeps copies on them."""
    kinds = MANAGED_KINDS if lab.topology.manager else KINDS
    return kinds[lab.topology.replication](lab)
