"""The containers of a lab by service, and the servers that were asked for in them."""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from typing import Any, cast

from docker.errors import APIError, NotFound
from docker.models.containers import Container

from replication_lab.world import requests_made
from replication_lab.world.docker import control_groups, labels, sites
from replication_lab.world.docker.client import EngineClient
from replication_lab.world.host import HERE, MachineFiles
from replication_lab.world.mysql.server import Server

# What a container runs that only has to stay up: others are started in it by `docker exec`.
WAIT = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"


def of_a_lab(project: str) -> dict[str, list[Container]]:
    """Return the containers of a lab by service: each has one."""
    return {container.labels.get(labels.SERVICE, ""): [container] for container in labels.containers(project)}


class LabContainers:
    """The containers of a lab, queried at the first access and again after `refresh`.

    `query` returns those of a project by service, in the order of their numbers.
    """

    def __init__(self, project: str, query: Callable[[str], dict[str, list[Container]]] = of_a_lab):
        self.project, self._query = project, query
        # By node.
        self.servers: dict[str, Server] = {}
        # The CPU seconds of the earlier runs of containers, by the names in `every`.
        self.cpu_of_ended: dict[str, float] = {}

    @cached_property
    def all(self) -> dict[str, list[Container]]:
        """All containers of each service."""
        return self._query(self.project)

    def learn_from(self, other: "LabContainers") -> None:
        """Cache what another object of the same lab has cached: a query takes 8 ms of a CPU."""
        if "all" in other.__dict__:
            self.all = other.all

    def of(self, service: str) -> list[Container]:
        return self.all.get(service, [])

    @property
    def by_service(self) -> dict[str, Container]:
        """The first container of each service."""
        return {service: found[0] for service, found in self.all.items()}

    @property
    def every(self) -> dict[str, Container]:
        """All containers: the first of each service by the service, others by their own names."""
        others = {each.name or "": each for found in self.all.values() for each in found[1:]}
        return {**others, **self.by_service}

    def every_at(self, site: str, apart: Collection[str]) -> dict[str, Container]:
        """Return those of `every` on the machine of a site; of the command's engine, all but those of sites `apart`."""
        where = {name: engine_of(one).site for name, one in self.every.items()}
        there = {name for name, at in where.items() if (at == site if site else at not in apart)}
        return {name: one for name, one in self.every.items() if name in there}

    def refresh(self) -> None:
        """Discard what is cached: ports and states change when a container is restarted."""
        self.__dict__.pop("all", None)
        self.servers = {}

    @cached_property
    def subnets(self) -> tuple[str, ...]:
        """The address ranges of the lab's networks."""
        only = {"label": f"{labels.PROJECT}={self.project}"}
        found = [each for client in sites.clients(self.project) for each in client.networks.list(filters=only)]
        return tuple(part["Subnet"] for each in found for part in each.attrs["IPAM"]["Config"] or ())

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time that each container has used, in seconds, by the names in `every`.

        Earlier runs of a container count up to the moment when this process ended them.
        """
        return self.cpu_seconds_of(self.every)

    def cpu_seconds_of(self, containers: Mapping[str, Container], files: MachineFiles = HERE) -> dict[str, float]:
        """Return the same of these containers, by the names in `every`; `files` are those of the engine's machine."""
        counted = {name: control_groups.cpu_seconds(str(one.id), files) for name, one in containers.items()}
        not_here = [name for name, seconds in counted.items() if seconds is None]
        if not_here:
            with ThreadPoolExecutor(8) as pool:
                counted |= zip(not_here, pool.map(lambda name: _asked(containers[name]), not_here), strict=True)
        return {name: (seconds or 0.0) + self.cpu_of_ended.get(name, 0.0) for name, seconds in counted.items()}


def _asked(container: Container) -> float:
    """Return the CPU seconds that the engine tells of a container; zero for one that was removed meanwhile."""
    with suppress(NotFound):
        return seconds_of(engine_of(container).api.stats(str(container.id), stream=False, one_shot=True))
    return 0.0


def environment_of(container: Container | None) -> dict[str, str]:
    """Return the variables with which a container was made; empty without one."""
    entries = container.attrs["Config"].get("Env") or [] if container else []
    return dict(entry.partition("=")[::2] for entry in entries)


def engine_of(container: Container) -> EngineClient:
    """Return the client of the engine that has a container."""
    return cast("EngineClient", container.client)


def seconds_of(usage: dict[str, Any]) -> float:
    """Return the CPU seconds of a sample of the Docker API's statistics; zero for a container that has ended."""
    return usage["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9


def commands_of_others(container: Container) -> set[int]:
    """Return the host's process numbers of the commands in a container that another process has started."""
    api, own = engine_of(container).api, requests_made.commands()
    try:
        running = api.inspect_container(str(container.id))["ExecIDs"] or []
        return {api.exec_inspect(each)["Pid"] for each in running if each not in own}
    except APIError:
        # The container or a command has ended meanwhile.
        return set()
