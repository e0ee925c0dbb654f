"""What a link leads to: the container that Testcontainers started, its network, and an account of its server."""

from collections.abc import Sequence
from dataclasses import dataclass

from testcontainers.compose import ComposeContainer, DockerCompose
from testcontainers.core.container import DockerContainer

from replication_lab.model.core.errors import LabError
from replication_lab.world.docker import engine
from replication_lab.world.docker.attached_servers import said_in
from replication_lab.world.docker.compose_call import Container
from replication_lab.world.mysql.accounts import Account, from_environment, version_for

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
    environment = dict(entry.partition("=")[::2] for entry in container.attrs["Config"].get("Env") or [])
    accounts = tuple(from_environment(environment, lambda path: said_in(container, "cat", path)))
    return Target(name, [*([BRIDGE] if is_internal else []), network], host, port, accounts)


def _container(given: Given, service: str) -> Container:
    """Return the container as the engine has it now."""
    if isinstance(given, DockerContainer):
        found = given.get_wrapped_container().id
    else:
        found = (given.get_container(service or None) if isinstance(given, DockerCompose) else given).ID
    return engine.client().containers.get(str(found))
