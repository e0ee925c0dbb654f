"""Which end of a link sends what goes up or down, and where its packets can be duplicated or reordered.

Toxiproxy ends TCP connections, so packets are those between the proxy and the node that opened the connection; of a
replicated disk's machines, those from the sending one to the proxy. A project's own containers are not touched: what
goes up there is taken between the proxy and the server.
"""

from collections.abc import Callable
from dataclasses import dataclass

from replication_lab.model.lab.topology import Link
from replication_lab.world.docker.service import Node, Service
from replication_lab.world.packets.namespace import Beside, Guest, Namespace
from replication_lab.world.packets.netem import Sender, Told

UP = "upstream"
# The network of a resource, in which machine 1 is .1 (images/vm/machine), and a port to which nothing else is sent.
RESOURCE_NETWORK, DISCARD = "169.254.78", 9


@dataclass(frozen=True)
class LinkEnds:
    """What a link leads through: the service with its Toxiproxy, and the nodes at its ends, which `node` returns."""

    model: Link
    proxy: Service
    node: Callable[[str], Node]
    # Whether packets may be changed at the nodes; otherwise only at the proxy.
    touches_nodes: bool = True

    def sender(self, stream: str, ports: Callable[[], tuple[int, ...]]) -> Sender:
        """Return where the packets of one direction leave; `ports` are the proxy's that the link's nodes dial."""
        model = self.model
        if model.joins_guests:
            ends = (model.dialler, model.server)
            node, peer = ends if stream == UP else ends[::-1]
            address = f"{RESOURCE_NETWORK}.{peer[-1]}"
            told = Told((f"match ip dst {address}/32",), DISCARD, address)
            return Sender(Guest(self.node(node)), model.name, stream, lambda: told)
        up_from_proxy = stream == UP and not self.touches_nodes
        sends = self.node(model.dialler) if stream == UP and not up_from_proxy else self.proxy
        server = int(model.upstream.rpartition(":")[2])
        side = "dport" if stream == UP else "sport"
        return Sender(Beside(sends), model.name, stream, lambda: _told(side, (server,) if up_from_proxy else ports()))

    def receiver(self, stream: str) -> Namespace | None:
        """Return where TCP receives what was sent, to count what comes out of order; None where the lab cannot look."""
        if not self.touches_nodes:
            return None
        from_proxy = stream != UP and not self.model.joins_guests
        return Beside(self.node(self.model.dialler) if from_proxy else self.proxy)


def _told(side: str, ports: tuple[int, ...]) -> Told:
    """Return how TCP packets from or to these ports, and the lab's datagrams to the first, are told from others."""
    datagrams = f"match ip protocol 17 0xff match ip dport {ports[0]} 0xffff"
    streams = (f"match ip protocol 6 0xff match ip {side} {port} 0xffff" for port in ports)
    return Told((*streams, datagrams), ports[0])
