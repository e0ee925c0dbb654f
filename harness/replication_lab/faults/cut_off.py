"""An endpoint, or a failover manager, that does not reach a node: rules on packets in the network of that service."""

from collections.abc import Sequence
from functools import partial

from replication_lab.faults.fault import fault
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.world import clock
from replication_lab.world.docker.lab import MYSQL_PORT, Lab
from replication_lab.world.docker.service import Service
from replication_lab.world.packets.namespace import Beside

# In both directions, before every other rule; -D deletes exactly what -I inserted.
RULES = "for way in 'INPUT -s' 'OUTPUT -d'; do iptables -w {act} $way {address} -j DROP; done"
CONNECTS = "timeout 1 bash -c '</dev/tcp/{address}/{port}' && echo connects || echo no answer"
AGAIN_SECONDS = 20


class CutOff:
    """Services that no packet reaches from the addresses of nodes, and whose packets reach none of these."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        self.lab = lab
        services, others = self.ends(nodes)
        # Taken before: a node that a fault ends has no address.
        addresses = {node: next(iter(lab.service(node).addresses())) for node in others}
        self._ways = [(service, node, address) for service in services for node, address in addresses.items()]
        self._dropped: list[tuple[Service, str]] = []
        # What changes packets there is started before anything observes the lab.
        for service in services:
            Beside(service).run("true")

    def ends(self, nodes: Sequence[str]) -> tuple[Sequence[Service], Sequence[str]]:
        """Return the services, and the nodes that they are to be cut off from."""
        raise NotImplementedError

    def inject(self) -> None:
        for service, _, address in self._ways:
            self._dropped.append((service, address))
            Beside(service).run(RULES.format(act="-I", address=address))

    def verify(self) -> list[Proof]:
        """Prove that the service gets no answer of a server there."""
        return [self._proof(*way, "no answer") for way in self._ways]

    def recover(self) -> None:
        while self._dropped:
            service, address = self._dropped.pop()
            Beside(service).run(RULES.format(act="-D", address=address))

    def verify_recovered(self) -> list[Proof]:
        """Wait until the service gets an answer again."""
        for service, _, address in self._ways:
            again = f"{service.name} to reach {address} again"
            clock.wait_until(partial(self._connects, service, address), again, AGAIN_SECONDS, every=0.1)
        return [self._proof(*way, "connects") for way in self._ways]

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _proof(self, service: Service, name: str, address: str, expected: str) -> Proof:
        return Proof.same(f"the server of {name}, asked by {service.name}", self._answer(service, address), expected)

    def _connects(self, service: Service, address: str) -> bool:
        return self._answer(service, address) == "connects"

    def _answer(self, service: Service, address: str) -> str:
        return service.run("bash", "-c", CONNECTS.format(address=address, port=MYSQL_PORT)).strip()


def none_to_break(lab: Lab, what: str) -> LabError:
    """Return the error for a lab without an endpoint, or a manager."""
    return LabError(f"{lab.name} has no {what}", f"a drill with the key {what}, or the option", "./lab drill --help")


@fault(
    "manager-cut",
    does="packets between the failover manager and the targets are dropped; clients and replicas are not affected. Of "
    "a manager beside each node, those of the targets are cut off from the other nodes",
    proof="the manager gets no answer of the server there; after recovery: it does",
)
class ManagerCut(CutOff):
    """Nodes that the manager does not reach."""

    def ends(self, nodes: Sequence[str]) -> tuple[Sequence[Service], Sequence[str]]:
        manager = self.lab.manager
        if manager is None:
            raise none_to_break(self.lab, "manager")
        if not manager.kind.beside_nodes:
            return manager.services, nodes
        return manager.beside(nodes), [node.name for node in self.lab.topology.nodes if node.name not in nodes]


@fault(
    "endpoint-cut",
    does="packets between the endpoint and the targets are dropped, so no client reaches them; the failover manager "
    "and replicas do",
    proof="the endpoint gets no answer of the server there; after recovery: it does",
)
class EndpointCut(CutOff):
    """Nodes that the endpoint does not reach."""

    def ends(self, nodes: Sequence[str]) -> tuple[Sequence[Service], Sequence[str]]:
        if self.lab.endpoint is None:
            raise none_to_break(self.lab, "endpoint")
        return [self.lab.endpoint.service], nodes
