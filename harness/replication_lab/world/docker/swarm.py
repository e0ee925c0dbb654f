"""The network between sites whose engines are in one Docker Swarm, which is used for nothing else."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from docker.errors import APIError
from docker.models.containers import Container
from docker.models.networks import Network

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.site import ENCRYPTED, NETWORK_OPTION, OVERLAY, Site
from replication_lab.world import at_once, owners
from replication_lab.world.docker import labels, removal, site_files, sites
from replication_lab.world.docker.client import EngineClient

INACTIVE, PORT = "inactive", 2377
# Docker encrypts with IPsec. A kernel without this drops the packets.
KERNEL = "the kernel of each site with ESP and AES-GCM (CONFIG_INET_ESP, CONFIG_CRYPTO_GCM)"
HOLDER = "replication-lab/toxiproxy"


@contextmanager
def network_made(project: str, nodes: Mapping[str, Site]) -> Iterator[None]:
    """Make the overlay network of a lab on one of its engines, a manager; nothing for a lab without one.

    Within the block a container holds it on each other engine: Compose refuses a network that a worker does not know
    yet. LabError if the engines are not in one swarm, or none of them is a manager; an error of the block tells what an
    encrypted network needs.
    """
    found = {site.endpoint: site for site in nodes.values() if site.is_on_overlay}
    if not found:
        yield
        return
    engines = {endpoint: sites.client(endpoint) for endpoint in found}
    manager = _manager(engines)
    name, marks = site_files.network_of(project), {labels.LABEL: owners.owner(), labels.PROJECT: project}
    encrypted = next(iter(found.values())).network == ENCRYPTED
    options = {"encrypted": "true"} if encrypted else {}
    manager.networks.create(name, driver="overlay", attachable=True, options=options, labels=marks)
    others = [client for client in engines.values() if client is not manager]
    holders = at_once.of_each(lambda client: _held(client, name, marks), others)
    try:
        yield
    except LabError as error:
        if encrypted:
            error.expected = f"{error.expected}; for {NETWORK_OPTION} {ENCRYPTED}, {KERNEL}".lstrip("; ")
        raise
    finally:
        for each in holders:
            removal.remove_container(each)


def _held(client: EngineClient, name: str, marks: Mapping[str, str]) -> Container:
    """Start a container in a network, with these labels."""
    return client.containers.run(HOLDER, detach=True, network=name, labels=dict(marks))


def join(machines: Mapping[str, str]) -> None:
    """Make one swarm of these engines, from their endpoints and addresses; the first one is its manager.

    LabError if one of them is in a swarm, or cannot join; nothing is changed then.
    """
    engines = {endpoint: sites.client(endpoint) for endpoint in machines}
    for endpoint, client in engines.items():
        if _state(client).get("LocalNodeState", INACTIVE) != INACTIVE:
            raise LabError(
                f"{Site(endpoint)} is in a swarm already",
                "engines that are in none; a swarm of yours is used as it is",
                f"./lab up --help, for {NETWORK_OPTION} {OVERLAY}",
            )
    (first, address), *others = machines.items()
    manager = engines[first]
    joined = [manager]
    try:
        manager.swarm.init(advertise_addr=address, listen_addr=address, labels={labels.LABEL: owners.owner()})
        token = manager.swarm.attrs["JoinTokens"]["Worker"]
        for endpoint, its in others:
            joined.append(engines[endpoint])
            engines[endpoint].swarm.join([f"{address}:{PORT}"], token, listen_addr=its, advertise_addr=its)
    except (APIError, LabError) as error:
        for client in reversed(joined):
            with suppress(APIError, LabError):
                client.swarm.leave(force=True)
        raise LabError(
            f"the engines cannot be made one swarm: {getattr(error, 'explanation', '') or error}",
            "an address of each machine that the others reach at 2377/tcp, 7946/tcp, 7946/udp and 4789/udp",
            "./lab sites join --help",
        ) from error


def leave(endpoints: Collection[str]) -> None:
    """Let these engines leave the swarm that `join` made of them.

    LabError, with nothing changed, if it was made otherwise, has a lab's network, or would go on without a manager.
    """
    engines = {endpoint: sites.client(endpoint) for endpoint in endpoints}
    manager = _manager(engines)
    manager.swarm.reload()
    if labels.LABEL not in (manager.swarm.attrs["Spec"].get("Labels") or {}):
        raise LabError("this swarm was not made by the lab", "that of `lab sites join`", "docker swarm leave")
    of_labs = manager.networks.list(filters={"label": labels.LABEL, "scope": "swarm"})
    if used := [str(network.name) for network in of_labs]:
        raise LabError(f"labs use this swarm: {', '.join(used)}", "no lab in it", "./lab down")
    named = {_state(client).get("NodeID") for client in engines.values()}
    nodes = [each for each in manager.nodes.list() if each.id not in named and each.attrs["Status"]["State"] == "ready"]
    if others := [str(each.attrs["Description"]["Hostname"]) for each in nodes]:
        raise LabError(
            f"{', '.join(others)} would stay in the swarm without a manager", "all its engines", "docker node ls"
        )
    for client in (*(each for each in engines.values() if each is not manager), manager):
        client.swarm.leave(force=True)


def is_one(endpoints: Collection[str]) -> bool:
    """Return whether these engines are in one swarm, with a manager among them."""
    engines = {endpoint: sites.client(endpoint) for endpoint in endpoints}
    with suppress(LabError):
        return bool(_manager(engines))
    return False


def _manager(engines: Mapping[str, EngineClient]) -> EngineClient:
    states = {endpoint: _state(client) for endpoint, client in engines.items()}
    managers = [endpoint for endpoint, state in states.items() if state.get("ControlAvailable")]
    if not managers:
        raise LabError(
            "none of the sites is a manager of a swarm",
            "engines in one swarm, and a manager among them; or a --site-address for each",
            "docker swarm init --advertise-addr ADDRESS on one site, and the command that it prints on the others",
        )
    first = managers[0]
    its = {states[first].get("NodeID")} | {each["NodeID"] for each in states[first].get("RemoteManagers") or ()}
    for endpoint, state in states.items():
        known = {state.get("NodeID")} | {each["NodeID"] for each in state.get("RemoteManagers") or ()}
        if not known & its:
            raise LabError(
                f"{Site(endpoint)} is not in the swarm of {Site(first)}",
                "engines in one swarm; or a --site-address for each",
                f"{f'DOCKER_HOST={first} ' if first else ''}docker swarm join-token worker",
            )
    return engines[first]


def _state(client: EngineClient) -> dict[str, Any]:
    return client.info().get("Swarm") or {}


def is_removed_elsewhere(network: Network) -> bool:
    """Return whether a network is removed by a manager of its swarm only, and its engine is none."""
    if network.attrs.get("Scope") != "swarm":
        return False
    client: EngineClient = network.client  # type: ignore[assignment]  # the one that listed it
    return not _state(client).get("ControlAvailable")
