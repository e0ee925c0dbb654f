"""A replica whose applier is stopped, as by STOP REPLICA SQL_THREAD: it receives, acknowledges and applies nothing."""

from replication_lab.faults._servers import REPLICAS
from replication_lab.faults._threads import ThreadStop
from replication_lab.faults.fault import fault
from replication_lab.model.drill.fault import NODES
from replication_lab.world.mysql.replica import APPLIER


@fault(
    "applier-stop",
    acts_on=NODES,
    does="the replica's applier is stopped; it still receives, and acknowledges",
    proof="the applier is stopped, also between the readings; after recovery: it runs",
    needs=(REPLICAS,),
)
class ApplierStop(ThreadStop):
    """Replicas whose applier is stopped."""

    thread = APPLIER
