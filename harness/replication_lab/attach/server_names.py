"""Which server of a project a replica reaches by a host and a port, by any of the names that Compose gives."""

from collections.abc import Callable, Iterator

from replication_lab.attach.compose_project import ComposeProject, is_address
from replication_lab.model.core.errors import LabError
from replication_lab.world.mysql.replica import ReplicaStatus

HERE = ("localhost", "127.0.0.1", "::1")
# The names of the host that runs the engine, and how `extra_hosts` says its address.
HOST, HOST_GATEWAY = ("host.docker.internal", "gateway.docker.internal"), "host-gateway"


def server_at(
    project: ComposeProject, replica: str, at: ReplicaStatus, ask: Callable[[str, str], str] = lambda *_: ""
) -> str | None:
    """Return the service whose server a replica reaches by a channel; None if it is none of the project.

    `ask` returns the address of a name in the container of a service, as that resolves it; an empty string if it
    cannot.
    """
    found = _at(project, replica, at.host, at.port)
    if not found and not is_address(at.host) and (address := ask(replica, at.host)):
        found = _at(project, replica, address, at.port)
    return found


def _at(project: ComposeProject, replica: str, host: str, port: int) -> str | None:
    own = project.network_owner(replica) or replica
    address = project.extra_hosts(own).get(host, host)
    others = [each for each in project.databases() if each != replica]
    if address in (HOST_GATEWAY, *HOST):
        found = [each for each in others if str(port) in project.published(each)]
    elif address in HERE:
        found = [each for each in others if project.network_owner(each) == own]
    else:
        wanted = address.casefold()
        found = [each for each in others if wanted in map(str.casefold, _every_name(project, each, own))]
    # Servers that share a network have different ports.
    at_port = [each for each in found if len(found) == 1 or _port(project, each) == port]
    return next(iter(at_port or found), None)


def _port(project: ComposeProject, service: str) -> int:
    try:
        return project.port(service)
    except LabError:
        return 0


def _every_name(project: ComposeProject, service: str, consumer: str) -> Iterator[str]:
    owner = project.network_owner(service)
    for one in filter(None, dict.fromkeys((owner, service))):
        names = [*project.names(one, consumer), str(project.service(one).get("hostname") or one)]
        yield from names
        for container in project.containers(one):
            yield container.hostname
            for network, address in container.addresses.items():
                yield address
                # Docker also resolves a name with that of its network.
                yield from (f"{name}.{network}" for name in names)


def refuse_undirectable(project: ComposeProject, replica: str, source: str, at: tuple[str, int], port: int) -> None:
    """Refuse a replica whose connection to its source an alias would not redirect; `port` is that of the link."""
    host, dialled = at
    address = project.extra_hosts(replica).get(host, "")
    if address:
        why = f"by {host}, which its extra_hosts set to {address}: they override any alias"
    elif is_address(host):
        why = f"by its address {host}, and an alias redirects only a name"
    elif host in (*HERE, *HOST):
        why = f"by {host}:{dialled}, which leads to no container by its name"
    elif dialled != port:
        why = f"at port {dialled}, and the link is at port {port}"
    else:
        return
    raise LabError(
        f"{replica} replicates from {source} {why}",
        f"the name {source} and port {port} as the source's address on {replica}",
        project.call.attached_by([f"{replica}:{source}"]),
    )
