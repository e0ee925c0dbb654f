"""An endpoint, or a failover manager, that does not reach a node: rules on packets in the network of that service."""

from collections.abc import Sequence

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
        # Taken before: a node that a fault ends has none. Each service with the addresses, by what they are called.
        self._ways = self.ways(nodes)
        self._dropped: list[tuple[Service, str]] = []
        # What changes packets there is started before anything observes the lab.
        for service, _ in self._ways:
            Beside(service).run("true")

    def ways(self, nodes: Sequence[str]) -> list[tuple[Service, dict[str, str]]]:
        """Return the services, each with the addresses that it is to be cut off from, by their names."""
        raise NotImplementedError

    def addresses(self, nodes: Sequence[str]) -> dict[str, str]:
        return {node: next(iter(self.lab.service(node).addresses())) for node in nodes}

    def inject(self) -> None:
        for service, addresses in self._ways:
            for address in addresses.values():
                self._dropped.append((service, address))
                Beside(service).run(RULES.format(act="-I", address=address))

    def verify(self) -> list[Proof]:
        """Prove that the service gets no answer of a server there."""
        return [self._proof(service, name, address, "no answer") for service, name, address in self._each()]

    def recover(self) -> None:
        while self._dropped:
            service, address = self._dropped.pop()
            Beside(service).run(RULES.format(act="-D", address=address))

    def verify_recovered(self) -> list[Proof]:
        """Wait until the service gets an answer again."""
        for service, _, address in self._each():
            clock.wait_until(
                lambda service=service, address=address: self._answer(service, address) == "connects",  # type: ignore[misc]  # the loop's values
                f"{service.name} to reach {address} again",
                AGAIN_SECONDS,
                every=0.1,
            )
        return [self._proof(service, name, address, "connects") for service, name, address in self._each()]

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _each(self) -> list[tuple[Service, str, str]]:
        return [(service, name, address) for service, found in self._ways for name, address in found.items()]

    def _proof(self, service: Service, name: str, address: str, expected: str) -> Proof:
        return Proof.same(f"the server of {name}, asked by {service.name}", self._answer(service, address), expected)

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

    def ways(self, nodes: Sequence[str]) -> list[tuple[Service, dict[str, str]]]:
        manager = self.lab.manager
        if manager is None:
            raise none_to_break(self.lab, "manager")
        if not manager.kind.beside_nodes:
            return [(service, self.addresses(nodes)) for service in manager.services]
        others = [node.name for node in self.lab.topology.nodes if node.name not in nodes]
        return [(service, self.addresses(others)) for service in manager.beside(nodes)]


@fault(
    "endpoint-cut",
    does="packets between the endpoint and the targets are dropped, so no client reaches them; the failover manager "
    "and replicas do",
    proof="the endpoint gets no answer of the server there; after recovery: it does",
)
class EndpointCut(CutOff):
    """Nodes that the endpoint does not reach."""

    def ways(self, nodes: Sequence[str]) -> list[tuple[Service, dict[str, str]]]:
        if self.lab.endpoint is None:
            raise none_to_break(self.lab, "endpoint")
        return [(self.lab.endpoint.service, self.addresses(nodes))]
