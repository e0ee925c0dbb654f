"""A replica whose receiver is stopped, as by STOP REPLICA IO_THREAD: it applies what it has received, and no more."""

from replication_lab.faults._servers import REPLICAS
from replication_lab.faults._threads import ThreadStop
from replication_lab.faults.fault import fault
from replication_lab.model.drill.fault import NODES
from replication_lab.world.mysql.replica import RECEIVER


@fault(
    "receiver-stop",
    acts_on=NODES,
    does="the replica's receiver is stopped: it applies what it has received, and acknowledges nothing more",
    proof="the receiver is stopped, also between the readings; after recovery: it runs",
    needs=(REPLICAS,),
)
class ReceiverStop(ThreadStop):
    """Replicas whose receiver is stopped."""

    thread = RECEIVER
