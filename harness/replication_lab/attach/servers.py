"""The servers of a project, asked from this machine without anything that the lab adds."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.world.docker import attached as attached_labs
from replication_lab.world.docker.compose_call import Container
from replication_lab.world.docker.service import reachable
from replication_lab.world.mysql.accounts import Account
from replication_lab.world.mysql.server import Server

ANY_ADDRESS = ("0.0.0.0", "::", "")


@dataclass(frozen=True)
class ServersOfProject:
    """The servers of a project by their services: the port of each, its containers, and the accounts that were given.

    `containers` are those of all services of the project.
    """

    project: str
    ports: Mapping[str, int]
    containers: Mapping[str, Sequence[Container]]
    accounts: Mapping[str, Account]

    def server(self, node: str) -> Server:
        """Return a server by an address of its own; LabError if it does not answer or accepts no account."""
        return self._accepted(node)[0]

    def account(self, node: str) -> Account | None:
        """Return the account that a server accepts; None if it does not answer or accepts none."""
        with suppress(LabError):
            return self._accepted(node)[1]
        return None

    def _accepted(self, node: str) -> tuple[Server, Account]:
        address = self._address(node)
        first = {service: each[0] for service, each in self.containers.items()}
        for account in attached_labs.accounts_for(node, self.accounts, first, self.ports):
            try:
                return attached_labs.server_at(node, address, account), account
            except LabError as error:
                if "does not answer" in error.found:
                    raise
        raise attached_labs.no_account(node, self.project)

    def _address(self, node: str) -> tuple[str, int]:
        """Return an address of a server from this machine: its container's, or a published port."""
        port, container = self.ports[node], network_of(self.containers[node][0], self.containers)
        for address in addresses(container):
            if reachable(address, port):
                return address, port
        bindings = container.attrs["NetworkSettings"]["Ports"].get(f"{port}/tcp")
        if bindings:
            host = bindings[0]["HostIp"]
            return ("127.0.0.1" if host in ANY_ADDRESS else host), int(bindings[0]["HostPort"])
        raise LabError(
            f"{node} does not answer at port {port} from this machine",
            f'a server that accepts connections, on Docker Desktop at a published port (ports: ["127.0.0.1::{port}"]); '
            f"another port is given by --link CONSUMER:{node}:PORT",
            "./lab attach --help",
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
