"""When every copy is there again, for each kind of replication: one file a kind."""

from harness.redundancy.alone import Alone
from harness.redundancy.cluster import Cluster
from harness.redundancy.followers import Followers
from harness.redundancy.machines import Machines
from harness.redundancy.managed_machines import ManagedMachines
from harness.redundancy.nodes import Nodes
from harness.world.compose import Lab

KINDS = {"none": Alone, "async": Followers, "semisync": Followers, "galera": Cluster, "drbd": Machines}
# The same under a cluster manager.
MANAGED_KINDS = {"drbd": ManagedMachines}


def of(lab: Lab) -> Nodes:
    """A lab's nodes, as its kind of replication keeps copies on them."""
    kinds = MANAGED_KINDS if lab.topology.manager else KINDS
    return kinds[lab.topology.replication](lab)
