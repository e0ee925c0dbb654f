"""An attached project as a lab: its servers are nodes, its links have a Toxiproxy each."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial

from docker.models.containers import Container

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.attachment import DOOR, AttachedLink, Attachment
from replication_lab.model.lab.endpoint import ENDPOINT, EndpointKind
from replication_lab.model.lab.manager import ManagerKind
from replication_lab.model.lab.server_name import text_of_nodes
from replication_lab.model.lab.topology import EQUAL_ROLES
from replication_lab.world.docker import attachments, compose_call
from replication_lab.world.docker.attached_servers import accepted, accounts_for, readable, said_in, server_at
from replication_lab.world.docker.containers import LabContainers
from replication_lab.world.docker.endpoint import RunningEndpoint
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.manager import RunningManager
from replication_lab.world.docker.service import Node, Service
from replication_lab.world.mysql import own_schema
from replication_lab.world.mysql.accounts import Account, database_from
from replication_lab.world.mysql.dialects import Dialect
from replication_lab.world.mysql.server import Server
from replication_lab.world.packets.link import RunningLink
from replication_lab.world.packets.toxiproxy import Toxiproxy, accepted_clients


@dataclass(frozen=True)
class AttachedEndpoint(RunningEndpoint):
    """A proxy of the project's; `door` returns where this process reaches it. Reads and writes have one address.

    `through` are the Toxiproxies of its own links to servers.
    """

    door: Callable[[], tuple[str, int]]
    through: Sequence[Service] = ()

    @property
    def senders(self) -> Sequence[Service]:
        return [self.service, *self.through]

    def server(self, *, reads: bool = False, near: bool = False) -> Server:  # noqa: ARG002 - one address for all
        return self.connect(self.door())


@dataclass(frozen=True)
class AttachedNode(Node):
    """A database server of the project; `address` is that of its server on the engine's machine."""

    address: Callable[[], tuple[str, int]]

    @property
    def site(self) -> str:
        """Empty: a project is on one engine, and its server may have no container there that the lab sees."""
        return ""

    def bound(self, _port: int) -> tuple[str, int]:
        """Return the address of its server, which leads through the lab's own Toxiproxy, whatever the port."""
        return self.address()

    @property
    def dialect(self) -> Dialect:
        return self.server().dialect


@dataclass(frozen=True)
class AttachedLab(Lab):
    """A project with links that lead through the lab; its containers are the project's, and those that were added."""

    attached: Attachment = field(kw_only=True)
    attached_by: str = field(kw_only=True)
    # By node.
    _accepted_accounts: dict[str, Account] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def all_containers(self) -> LabContainers:
        return LabContainers(self.name, compose_call.containers)

    @property
    def different_nodes(self) -> list[str]:
        """One node for each different image."""
        return list({image: node for node, image in reversed(self.attached.images.items())}.values())[::-1]

    def node(self, name: str) -> Node:
        door = self.service(DOOR)
        return AttachedNode(self.all_containers, name, self._connect, lambda: door.bound(self.attached.door(name)))

    def _connect(self, node: Node) -> Server:
        self.topology.node(node.name)
        return server_at(node.name, node.published(3306), self.account(node.name))

    @property
    def manager(self) -> RunningManager | None:
        """The failover manager that was named at `lab attach`: the lab can end it or cut it off, and not command it."""
        if not (name := self.attached.manager):
            return None
        return RunningManager(name, ManagerKind(f"{name} of the project", name), (self.service(name),))

    @property
    def endpoint(self) -> RunningEndpoint | None:
        service, _, port = self.attached.endpoint.rpartition(":")
        if not service:
            return None
        kind = EndpointKind(f"{service} of the project", service, int(port), int(port), 0, {})
        account, door = self.account(self.topology.source.name), self.service(DOOR)
        return AttachedEndpoint(
            *(self.attached.endpoint, kind, self.service(service)),
            lambda address: server_at(ENDPOINT, address, account),
            partial(door.published, self.attached.endpoint_door),
            [self.service(link.service) for link in self.attached.links if link.consumer == service],
        )

    def node_at(self, host: str) -> str:
        """Return the node that has a host name or address of its container; the host itself if none has."""
        nodes = [node for node in self.attached.nodes if node in self.containers]
        return next((node for node in reversed(nodes) if host in _hosts_of(self, node)), host)

    @property
    def clients_are_beside(self) -> bool:
        """Clients use the project's servers by the lab's own Toxiproxy, from this machine."""
        return False

    @property
    def toxiproxy(self) -> Toxiproxy:
        raise LabError(
            f"{self.name} is attached, and each of its links has a Toxiproxy of its own",
            "a lab of the lab's own topologies",
            "./lab up",
        )

    def link(self, name: str) -> RunningLink:
        proxy = self.service(self.attached_link(name).service)
        return RunningLink(self.topology.link(name), proxy, self.node, touches_nodes=False)

    def use(self, name: str) -> str:
        """Return what crosses a link, in words."""
        link = self.attached_link(name)
        if not self.leads_through(name):
            return f"NOT IN USE: {link.consumer} was recreated without the lab"
        many = self.crossed_by(name)
        return (
            f"connections of {link.consumer} so far: {many}"
            if many
            else f"NOT IN USE: {link.consumer} has opened no connection"
        )

    def attached_link(self, name: str) -> AttachedLink:
        self.topology.link(name)
        return next(link for link in self.attached.links if link.name == name)

    def crossed_by(self, name: str) -> int:
        """Return the number of connections across a link that its consumer's containers have opened so far."""
        link = self.attached_link(name)
        addresses = {
            network["IPAddress"]
            for container in self.all_containers.of(link.consumer)
            for network in container.attrs["NetworkSettings"]["Networks"].values()
        }
        return sum(client in addresses for _, client in accepted_clients(self.service(link.service).logs("all")))

    def leads_through(self, name: str) -> bool:
        """Return whether each container of a link's consumer still has the alias of the link."""
        link = self.attached_link(name)
        found = self.all_containers.of(link.consumer)
        return bool(found) and all(_is_linked(container, link) for container in found)

    def resolved(self, name: str) -> list[str]:
        """Return the address of a link's server in each container of its consumer; empty where no tool can tell."""
        link = self.attached_link(name)
        said = [said_in(each, "getent", "hosts", link.server) for each in self.all_containers.of(link.consumer)]
        return [each.split()[0] for each in said if each.split()]

    def application(self, node: str) -> tuple[str, str]:
        account = self.account(node)
        return account.user, account.password

    def database(self, node: str) -> str:
        """Return the database that the node's container names, else another node's; only one that exists there."""
        others = [each for each in self.attached.nodes if each != node]
        named = (database_from(*readable(each, self.containers)) for each in (node, *others))
        wanted = next(filter(None, named), "")
        exists = {row["Database"] for row in self.node(node).server().rows("SHOW DATABASES")} if wanted else set()
        return wanted if wanted in exists else ""

    def administrator(self, node: str) -> tuple[str, str]:
        return self.application(node)

    # -- accounts --------------------------------------------------------------------------------------------------

    def account(self, node: str) -> Account:
        """Return the account with which the lab uses a server; LabError if none is known that the server accepts."""
        if node not in self._accepted_accounts:
            names, containers = [each.name for each in self.topology.nodes], self.containers
            accounts = accounts_for(node, attachments.accounts(self.name), containers, names)
            address = self.node(node).published(3306)
            _, self._accepted_accounts[node] = accepted(node, self.name, address, accounts, containers.get(node))
        return self._accepted_accounts[node]

    def down(self) -> None:
        """Restore the project, and remove all that the lab added; nothing of the project's is removed."""
        # What a killed drill left in the servers. It arrives at the others by itself; any member of a cluster takes it.
        members = [node for node in self.topology.nodes if node.role in EQUAL_ROLES]
        for node in members or [self.topology.source]:
            with suppress(LabError):
                own_schema.remove(self.node(node.name).server())
                break
        attachments.restore(self.name)

    @property
    def owners(self) -> set[str]:
        """The process that attached it."""
        return {self.attached_by}


def _hosts_of(lab: AttachedLab, node: str) -> Iterator[str]:
    """Yield the names and addresses at which others reach a server; without a host name it reports its container's."""
    container = lab.containers[node]
    yield from (node, str(container.name), str(container.attrs["Config"]["Hostname"]))
    for network in container.attrs["NetworkSettings"]["Networks"].values():
        yield from filter(None, [network["IPAddress"], *(network.get("Aliases") or [])])


def _is_linked(container: Container, link: AttachedLink) -> bool:
    networks = container.attrs["NetworkSettings"]["Networks"].values()
    has = {each for network in networks for each in network.get("Links") or []}
    return any(each.endswith(f":{link.server}") and link.service in each for each in has)


def refuse_attached(lab: Lab, command: str) -> None:
    """Raise LabError for an attached project: the command is for labs that the lab started itself."""
    if isinstance(lab, AttachedLab):
        raise LabError(
            f"{lab.name} is an attached project, and `lab {command}` is for labs of the lab's own topologies",
            "lab status, toxic, drill, diagnose, sql, and stop, kill, pause, start of its servers",
            f"./lab status --lab {lab.name}",
        )


def labs() -> dict[str, AttachedLab]:
    """Return the projects that were attached from this checkout, and whose added containers exist."""
    there = attachments.containers()
    found = {}
    for name, kept in attachments.all_kept().items():
        if (mine := kept.attached) and name in there:
            images = text_of_nodes(mine.images)
            found[name] = AttachedLab(name, mine.topology, images, {}, attached=mine, attached_by=kept.owner)
    return found
