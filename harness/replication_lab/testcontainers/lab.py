"""One link to a container of Testcontainers, as a lab: a Toxiproxy in its network, and a server that is measured.

The Toxiproxy has two entries for the link. Only the user's programs use the first, so that it counts their connections.
The lab measures by the second: it leads to the same server if that is one of MySQL's family, else to an echo beside the
Toxiproxy. Each toxic and each cut is on both.
"""

import secrets
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testcontainers.compose import ComposeContainer, DockerCompose
from testcontainers.core.container import DockerContainer

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.topology import ECHO, HOST_PORTS, NO_REPLICATION, SQL, Link, Topology, TopologyNode
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.world import catalogue, clock, owners
from replication_lab.world.docker import engine, images, labels
from replication_lab.world.docker.attached import AttachedNode
from replication_lab.world.docker.attached_servers import said_in, server_at
from replication_lab.world.docker.compose_call import Container
from replication_lab.world.docker.containers import environment_of
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.service import Node
from replication_lab.world.mysql.accounts import Account, from_environment, version_for
from replication_lab.world.mysql.server import Server
from replication_lab.world.packets.link import RunningLink
from replication_lab.world.packets.toxiproxy import accepted_clients

PROXY, ECHO_SERVICE, CLIENT, SERVER = "toxiproxy", "echo", "test", "server"
LINK = f"{CLIENT}-{SERVER}"
# Ports in the Toxiproxy's container. The link has the server's own port there, unless one of these is the same.
API, MEASURED, ECHO_PORT, OTHER = 8474, 21001, 21007, 21000
START_SECONDS = 30
LISTEN = (Path(__file__).parent / "listen.pl").read_text()
Given = DockerContainer | ComposeContainer | DockerCompose
BRIDGE = "bridge"


@dataclass(frozen=True)
class Target:
    """A port of a container, by the address at which others in its network reach it.

    `networks` are those that a proxy has to join, and `accounts` what the container's environment names for a server of
    MySQL's family.
    """

    name: str
    networks: Sequence[str]
    host: str
    port: int
    accounts: Sequence[Account]

    def account_at(self, address: tuple[str, int]) -> Account | None:
        """Return an account that the server at an address accepts; None if it is no server of MySQL's family."""
        for account in self.accounts:
            try:
                if version_for(address, account) is not None:
                    return account
            except LabError:
                return None
        return None


def target_of(given: Given, port: int, service: str = "") -> Target:
    """Return the target; LabError if the container does not run, or has no network of its own."""
    container = _container(given, service)
    name, networks = str(container.name), container.attrs["NetworkSettings"]["Networks"]
    mode = str(container.attrs["HostConfig"].get("NetworkMode", ""))
    if container.status != "running" or not networks or mode in ("host", "none"):
        why = f"is in the network {mode}" if container.status == "running" else f"is {container.status}"
        raise LabError(
            f"{name} {why}, and a link leads only to a running container in a network of Docker's",
            "a started container, in the default network or in one of testcontainers.core.network.Network",
            f"docker inspect {name}",
        )
    network, found = next(iter(networks.items()))
    # Only the default network gives containers no names.
    host = found["IPAddress"] if network == BRIDGE else name
    is_internal = engine.client().networks.get(found["NetworkID"]).attrs.get("Internal", False)
    accounts = tuple(from_environment(environment_of(container), lambda path: said_in(container, "cat", path)))
    return Target(name, [*([BRIDGE] if is_internal else []), network], host, port, accounts)


def _container(given: Given, service: str) -> Container:
    """Return the container as the engine has it now."""
    if isinstance(given, DockerContainer):
        found = given.get_wrapped_container().id
    else:
        found = (given.get_container(service or None) if isinstance(given, DockerCompose) else given).ID
    return engine.client().containers.get(str(found))


@dataclass(frozen=True)
class ContainerLab(Lab):
    """A link to a container.

    `port` is that of the link in the Toxiproxy's container. `account` is what the lab logs in with, if a server of
    MySQL's family answers; otherwise an echo is measured.
    """

    port: int = field(kw_only=True)
    account: Account | None = field(kw_only=True)

    @property
    def only_link(self) -> RunningLink:
        return self.link(LINK)

    def link(self, name: str) -> RunningLink:
        link = self.topology.link(name)
        return RunningLink(link, self.service(PROXY), self.node, touches_nodes=False)

    def node(self, name: str) -> Node:
        return AttachedNode(self.all_containers, name, self._connect, lambda: self.service(PROXY).bound(MEASURED))

    def _connect(self, node: Node) -> Server:
        if self.account is None:
            raise LabError(f"the lab has no account of {node.name}", "a server of MySQL's family")
        return server_at(node.name, node.published(MEASURED), self.account)

    def address(self) -> tuple[str, int]:
        """Return the host and the port of the link for programs on this machine, on the way that is measured."""
        proxy, (host, _) = self.service(PROXY), self.only_link.address
        return (host, self.port) if host in proxy.addresses() else proxy.published(self.port)

    def inside(self) -> tuple[str, int]:
        """Return the same for containers in the network of the server; the default network gives them no names."""
        networks = self.service(PROXY).container.attrs["NetworkSettings"]["Networks"]
        host = networks[BRIDGE]["IPAddress"] if networks.keys() == {BRIDGE} else f"{self.name}-{PROXY}"
        return host, self.port

    def crossed(self) -> int:
        """Return how many connections of programs the link has accepted so far."""
        return sum(entry == LINK for entry, _ in accepted_clients(self.service(PROXY).logs("all")))


def start(target: Target) -> ContainerLab:
    """Start what the link needs, without a condition; the caller removes it by `down`.

    Testcontainers starts the containers, so Ryuk removes them with its session. Without Ryuk, the next command of the
    lab removes what a killed process left.
    """
    name, port = f"link-{secrets.token_hex(4)}", OTHER if target.port in (API, MEASURED, ECHO_PORT) else target.port
    found = _lab(name, port, SQL, f"{SERVER}:{target.port}")
    try:
        images.ensure([PROXY])
        first, *others = target.networks
        ports = {f"{each}/tcp": ("127.0.0.1", HOST_PORTS) for each in (API, MEASURED, port)}
        _run(found, PROXY, PROXY, ports, network=first)
        for network in others:
            engine.client().networks.get(network).connect(found.service(PROXY).container)
        found.refresh()
        clock.wait_until(lambda: _answers(found), "the Toxiproxy of the link to answer", START_SECONDS, every=0.05)
        upstream, measured = f"{target.host}:{target.port}", found.only_link.model.proxies[1]
        found.toxiproxy.create(LINK, f"0.0.0.0:{port}", upstream)
        if target.accounts:
            found.toxiproxy.create(measured, f"0.0.0.0:{MEASURED}", upstream)
            if account := target.account_at(found.only_link.address):
                return _lab(name, port, SQL, f"{SERVER}:{target.port}", account)
            found.toxiproxy.call("DELETE", f"/proxies/{measured}")
        return _with_echo(name, port)
    except BaseException:
        found.down()
        raise


def _lab(name: str, port: int, channel: str, upstream: str, account: Account | None = None) -> ContainerLab:
    proxies = (LINK, f"{LINK}{channel}")
    link = Link(LINK, f"0.0.0.0:{MEASURED}", upstream, CLIENT, SERVER, proxies)
    topology = Topology(name, "", NO_REPLICATION, (TopologyNode(SERVER, SERVER),), (link,))
    return ContainerLab(name, topology, "", {}, port=port, account=account)


def _with_echo(name: str, port: int) -> ContainerLab:
    found = _lab(name, port, ECHO, f"{SERVER}:{ECHO_PORT}")
    images.ensure(["sidecar"])
    answers = (catalogue.IMAGES / "vm" / "guest" / "far-end").read_text()
    beside = f"container:{found.service(PROXY).container.id}"
    _run(
        found,
        ECHO_SERVICE,
        "sidecar",
        {},
        entrypoint=["perl", "-e", LISTEN, str(ECHO_PORT), answers],
        network_mode=beside,
    )
    found.toxiproxy.create(found.only_link.model.proxies[1], f"0.0.0.0:{MEASURED}", f"127.0.0.1:{ECHO_PORT}")
    clock.wait_until(lambda: _measures(found), "the echo of the link to answer", START_SECONDS, every=0.05)
    return found


def _run(lab: ContainerLab, service: str, image: str, ports: dict[str, Any], **options: Any) -> None:
    """Start a container by Testcontainers, with the lab's labels as well as its own."""
    container = DockerContainer(image)
    # Its prefix for images of a company's registry is not meant for an image that is built here.
    container.image, container.ports = f"{images.PREFIX}{image}", ports
    marks = {labels.LABEL: owners.owner(), labels.PROJECT: lab.name, labels.SERVICE: service}
    fewest = {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"], "healthcheck": {"test": ["NONE"]}}
    container.with_name(f"{lab.name}-{service}").with_kwargs(labels=marks, **fewest, **options).start()
    lab.refresh()


def _answers(lab: ContainerLab) -> bool:
    try:
        return lab.toxiproxy.proxies() == {}
    except LabError:
        return False


def _measures(lab: ContainerLab) -> bool:
    try:
        with closing(RoundTrip(lab.only_link)):
            return True
    except LabError:
        return False
