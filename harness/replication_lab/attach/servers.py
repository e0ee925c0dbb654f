"""The servers of a project, asked from this machine without anything that the lab adds."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from replication_lab.model.core.errors import LabError
from replication_lab.world import clock
from replication_lab.world.docker import machine, reach
from replication_lab.world.docker.attached_servers import accepted, accounts_for
from replication_lab.world.docker.compose_call import Container
from replication_lab.world.docker.service import reachable
from replication_lab.world.mysql.accounts import Account, NoAnswer
from replication_lab.world.mysql.server import Server

ANY_ADDRESS = ("0.0.0.0", "::", "")
# A first start creates the data directory, on a slow machine for this long.
STARTING_SECONDS = 90


@dataclass(frozen=True)
class ServersOfProject:
    """The servers of a project by their services: the port of each, its containers, and the accounts that were given.

    `containers` are those of all services of the project. Of a service with several the first one is asked.
    """

    project: str
    ports: Mapping[str, int]
    containers: Mapping[str, Sequence[Container]]
    accounts: Mapping[str, Account]

    def of(self, node: str, container: Container) -> "ServersOfProject":
        """Return the same servers, with this one of a service's containers in place of the first."""
        return replace(self, containers={**self.containers, node: [container]})

    def called(self, node: str, container: Container) -> str:
        """Return what one of a service's containers is called: the service, or its own name if there are several."""
        return node if len(self.containers[node]) == 1 else str(container.name)

    def server(self, node: str) -> Server:
        """Return a server by an address of its own.

        NoAnswer if it does not answer; LabError if it accepts no account, or none that may ask how it replicates.
        """
        return self._accepted(node)[0]

    def started(self, node: str) -> Server:
        """Do the same, and wait for a server whose container was started a moment ago: it may have no health check."""
        container = self.containers[node][0]
        started = datetime.fromisoformat(container.attrs["State"]["StartedAt"])
        until = clock.timer() + STARTING_SECONDS - (datetime.now(UTC) - started).total_seconds()
        while True:
            try:
                return self.server(node)
            except NoAnswer:
                container.reload()
                if clock.timer() > until or container.status != "running":
                    raise
            clock.pause(0.2)

    def account(self, node: str) -> Account | None:
        """Return the account that a server accepts; None if it does not answer or accepts none."""
        with suppress(LabError):
            return self._accepted(node)[1]
        return None

    def _accepted(self, node: str) -> tuple[Server, Account]:
        first = {service: each[0] for service, each in self.containers.items()}
        accounts = accounts_for(node, self.accounts, first, self.ports)
        return accepted(node, self.project, self._address(node), accounts, first[node])

    def _address(self, node: str) -> tuple[str, int]:
        """Return an address of a server from this machine: its container's, a published port, or through the engine."""
        port, container = self.ports[node], network_of(self.containers[node][0], self.containers)
        there, is_near = addresses(container), machine.is_near()
        for address in there if is_near else ():
            if reachable(address, port):
                return address, port
        if bindings := container.attrs["NetworkSettings"]["Ports"].get(f"{port}/tcp"):
            host, number = bindings[0]["HostIp"], int(bindings[0]["HostPort"])
            host = "127.0.0.1" if host in ANY_ADDRESS else host
            return (host, number) if is_near else reach.address(host, number)
        facts = machine.facts()
        if there and (facts.elsewhere or facts.rootless):
            # Only the engine's machine has a way to the addresses of containers.
            return reach.address(there[0], port)
        raise NoAnswer(
            f"{node} does not answer at port {port} of its container",
            f"a server that accepts connections there; another port is given by --link CONSUMER:{node}:PORT",
            f"docker logs --tail 20 {container.name}",
        )


def network_of(container: Container, containers: Mapping[str, Sequence[Container]]) -> Container:
    """Return the container whose network one uses: its own, or that of another service of the project."""
    mode, _, owner = str(container.attrs.get("HostConfig", {}).get("NetworkMode", "")).partition(":")
    every = (each for found in containers.values() for each in found)
    return next((each for each in every if mode == "container" and each.id == owner), container)


def addresses(container: Container) -> list[str]:
    """Return the addresses of a container on its networks."""
    networks = container.attrs["NetworkSettings"]["Networks"].values()
    return [each["IPAddress"] for each in networks if each["IPAddress"]]
