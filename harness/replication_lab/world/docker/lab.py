"""A running lab: a Compose project with its containers by service, its servers and its links."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from docker.errors import DockerException
from docker.models.containers import Container

from replication_lab.model.lab.endpoint import ENDPOINT
from replication_lab.model.lab.site import PROXY, server_at
from replication_lab.model.lab.topology import Link, Topology
from replication_lab.world import catalogue, owners
from replication_lab.world.client_place import HERE, ClientPlace
from replication_lab.world.docker import (
    beside_nodes,
    images,
    labels,
    leftovers,
    machine,
    removal,
    servers,
    sites,
)
from replication_lab.world.docker.client import refusal_told
from replication_lab.world.docker.containers import WAIT, LabContainers, engine_of
from replication_lab.world.docker.endpoint import RunningEndpoint
from replication_lab.world.docker.manager import RunningManager
from replication_lab.world.docker.service import Node, Service
from replication_lab.world.mysql.features import REPORTED, features_of
from replication_lab.world.mysql.server import Server
from replication_lab.world.packets.link import RunningLink, toxiproxy_of
from replication_lab.world.packets.toxiproxy import Toxiproxy
from replication_lab.world.signals import note_removal

# A kernel panic prints about 40 lines.
DEATH_LINES = 60
# The account of applications, and their database.
USER = "lab"
# The variable with the password of each account: in a lab's settings, then in the environment of its servers.
PASSWORDS = {USER: "LAB_PASSWORD", "root": "LAB_ROOT_PASSWORD", "replicator": "LAB_REPLICATOR_PASSWORD"}
DATABASE = "lab"
MYSQL_PORT = 3306
# How volumes are mounted, by their names, as Docker's client takes it.
Volumes = Mapping[str, dict[str, str]]
# The load tool that comes with a server, in the server's own version, by family.
SLAPS = {"mariadb": "mariadb-slap", "mysql": "mysqlslap"}


@dataclass(frozen=True)
class Lab:
    """A lab by its Compose project's name. An object is cheap: Docker is queried only when an answer is needed."""

    name: str
    topology: Topology
    engine: str
    # Of the accounts that the lab made, by user.
    passwords: Mapping[str, str] = field(repr=False, hash=False)
    # What starts its virtual machines, if the topology has any.
    launcher: str = ""
    # Whether `Node.set_clock` moves its servers' time.
    clocks_move: bool = False
    # The CPUs of each service that has CPUs of its own.
    pinned: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    # What an experiment wanted of this machine, and why it was not possible: each is a doubt of the run.
    not_done: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    # The servers of nodes that run another one since the start, as in `engine`.
    exchanged: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def all_containers(self) -> LabContainers:
        return LabContainers(self.name)

    @property
    def containers(self) -> dict[str, Container]:
        """The lab's containers by service, cached at the first access."""
        return self.all_containers.by_service

    @property
    def toxiproxy(self) -> Toxiproxy:
        """The Toxiproxy; in a lab on several sites, the first."""
        return toxiproxy_of(self.service(PROXY))

    def toxiproxy_beside(self, node: str) -> Toxiproxy:
        """Return the Toxiproxy on a node's site, which the node dials."""
        return self._toxiproxy(sites.proxy_beside(self.name, node))

    def _toxiproxy(self, service: str) -> Toxiproxy:
        return self.toxiproxy if service == PROXY else toxiproxy_of(self.service(service))

    def proxied(self) -> dict[str, dict[str, Any]]:
        """Return the entries of all its Toxiproxies, by name."""
        listed = (self._toxiproxy(name).proxies() for name in sites.proxies(self.name))
        return {name: entry for each in listed for name, entry in each.items()}

    def server_for(self, source: str, dialler: str) -> str:
        """Return the address of a node's server for the Toxiproxy beside another node, as HOST:PORT."""
        there, here = (sites.of_service(self.name, node) for node in (source, dialler))
        return "{}:{}".format(*server_at(self.topology, source, there, here))

    def refresh(self) -> None:
        """Discard cached containers: ports and states change when a container is restarted."""
        self.all_containers.refresh()

    @cached_property
    def features(self) -> frozenset[str]:
        """The features that all its servers have, by the names of engines.yaml; equal servers are queried once."""
        node = self.node(self.topology.source.name)
        slap = node.run("sh", "-c", f"command -v {SLAPS[node.dialect.family]} || true").strip()
        known = frozenset.intersection(*(features_of(self.node(each).server()) for each in self.different_nodes))
        return known | ({self.topology.replication} - REPORTED) | ({"own_slap"} if slap else set())

    @property
    def servers_of_nodes(self) -> dict[str, str]:
        """The text of each node's server, as it is now."""
        return servers.of_nodes(self.topology, self.engine) | self.exchanged

    @property
    def different_nodes(self) -> list[str]:
        """One node for each different engine or image; a single node if all run the same."""
        found = self.servers_of_nodes
        return list({text: node for node, text in reversed(found.items())}.values())[::-1]

    def application(self, _node: str) -> tuple[str, str]:
        """Return the user and the password with which applications use a node."""
        return USER, self.passwords[USER]

    def administrator(self, _node: str) -> tuple[str, str]:
        """Return the user and the password of a node's administrator."""
        return "root", self.passwords["root"]

    def database(self, _node: str) -> str:
        """Return the default database of clients on a node; an empty string if there is none."""
        return DATABASE

    def node_at(self, host: str) -> str:
        """Return the node that is reached at a host, as servers report it."""
        return host

    def service(self, name: str) -> Service:
        return Service(self.all_containers, name)

    def node(self, name: str) -> Node:
        return Node(self.all_containers, name, self._connect)

    @property
    def endpoint(self) -> RunningEndpoint | None:
        """The address that clients use in place of the nodes' own; None if the lab was started without one."""
        named = {service: one.labels.get(labels.ENDPOINT_LABEL, "") for service, one in self.containers.items()}
        service = next((service for service, name in named.items() if name), None)
        if service is None:
            return None
        dialect = self.node(self.topology.source.name).dialect
        return RunningEndpoint(
            *(named[service], catalogue.endpoint(named[service]), self.service(service)),
            lambda address: Server(ENDPOINT, address, dialect, self.passwords),
        )

    @property
    def manager(self) -> RunningManager | None:
        """The failover manager that runs in the lab; None without one, or if it is a person."""
        labelled = {service: one.labels.get(labels.MANAGER_LABEL, "") for service, one in self.containers.items()}
        own = [service for service, name in labelled.items() if name]
        if not own:
            return None
        name, first = labelled[own[0]], f"-{self.topology.source.name}"
        # The one beside the source begins first.
        own.sort(key=lambda service: (not service.endswith(first), service))
        return RunningManager(name, catalogue.manager(name), tuple(map(self.service, own)))

    @property
    def written_host(self) -> str:
        """The name, on the lab's network, of the server or the endpoint that loads write to."""
        return self.endpoint.service.name if self.endpoint else self.topology.source.name

    def _connect(self, node: Node) -> Server:
        self.topology.node(node.name)
        return Server(node.name, node.published(MYSQL_PORT), node.dialect, self.passwords)

    @property
    def clients_are_beside(self) -> bool:
        """Whether its clients run beside its nodes, and not in this process."""
        return beside_nodes.from_container() or bool(self._endpoint_of_source)

    @property
    def _endpoint_of_source(self) -> str:
        """The endpoint of the engine that runs its source, empty for the command's own."""
        return sites.of_service(self.name, self.topology.source.name).endpoint

    @property
    def clients_place(self) -> ClientPlace:
        """Where its clients run."""
        node = self.topology.source.name
        return beside_nodes.of(self.service(node)) if self.clients_are_beside else HERE

    def for_clients(self, name: str) -> Server:
        """Return a node's server as its clients reach it."""
        server = self.node(name).server()
        if not self.clients_are_beside:
            return server
        there, here = (sites.of_service(self.name, each) for each in (name, self.topology.source.name))
        host, port = server_at(self.topology, name, there, here)
        # By ports, only a site's own containers know its nodes by their names.
        return server.at((host if port == MYSQL_PORT else there.address, port))

    def link(self, name: str) -> RunningLink:
        """Return a link of the topology's, or one that a failover made."""
        known = {each for link in self.topology.links for each in (link.name, *link.proxies)}
        made = None if name in known else self.proxied().get(name)
        if made is None:
            model = self.topology.link(name)
        else:
            source = made["upstream"].rpartition(":")[0]
            model = Link(name, made["listen"], made["upstream"], source, name.removeprefix(f"{source}-"), (name,))
        proxy = self.service(sites.proxy_beside(self.name, model.dialler))
        return RunningLink(model, proxy, self.node)

    @property
    def links(self) -> list[RunningLink]:
        """The links of the topology."""
        return [self.link(link.name) for link in self.topology.links]

    def pin_cpus(self, *sites: tuple[str, ...]) -> dict[str, str]:
        """Pin each site (a tuple of services) to CPUs of its own, like separate machines; return {service: CPUs}.

        Without this the scheduler sometimes puts client and server on one core and sometimes not, and the same load
        commits 7 000 or 16 000 rows a second. Where it is not possible, `not_done` gets the reason.
        """
        facts = machine.facts_at(self._endpoint_of_source)
        cpus = _cpus(facts)
        share = len(cpus) // len(sites)
        if not share or facts.rootless:
            why = "the engine is rootless" if share else f"{len(cpus)} CPU for {len(sites)} sites"
            self.not_done.append(f"the sites share the same CPUs: {why}")
            return {}
        placed = {service: cpus[at * share : (at + 1) * share] for at, site in enumerate(sites) for service in site}
        given = {service: ",".join(map(str, numbers)) for service, numbers in placed.items()}
        for service, numbers in given.items():
            self.service(service).container.update(cpuset_cpus=numbers)
        self.pinned.update(given)
        return given

    def run_beside(self, like: str, name: str, image: str, volumes: Volumes = MappingProxyType({})) -> None:
        """Start a service of another image, with the network and the CPUs of a service that is there.

        It is removed with the lab, and has no privileges. LabError if it does not stay up.
        """
        images.have(image)
        model = self.service(like).container
        model.reload()
        with refusal_told(
            f"image {image} cannot run a load",
            "an image with sh, sleep and timeout",
            f"docker run --rm --entrypoint sh {image} -c 'command -v sleep timeout'",
            DockerException,
        ):
            made = engine_of(model).containers.create(
                image,
                entrypoint=["sh", "-c", WAIT],
                command=[],
                name=f"{self.name}-{name}",
                labels=labels.of_beside(self.name, model, name),
                network=next(iter(model.attrs["NetworkSettings"]["Networks"])),
                cpuset_cpus=model.attrs["HostConfig"]["CpusetCpus"],
                volumes=dict(volumes),
                cap_drop=["ALL"],
                security_opt=["no-new-privileges:true"],
            )
            made.start()
        self.refresh()

    def remove_beside(self, name: str) -> None:
        """Remove a service that `run_beside` has started."""
        removal.remove_container(self.service(name).container)
        self.refresh()

    def image_digests(self) -> dict[str, str]:
        return {service: container.attrs["Image"] for service, container in sorted(self.containers.items())}

    def image_origins(self) -> dict[str, str]:
        """Return the name and digest in a registry of each image that has one, by a service that runs it."""
        first = {image: service for service, image in reversed(self.image_digests().items())}
        found = {service: images.published(image) for image, service in first.items()}
        return {service: names[0] for service, names in sorted(found.items()) if names}

    def exit_reason(self) -> str:
        """Return the name and last log lines of a container that has ended by itself, or an empty string."""
        self.refresh()
        for service, container in self.containers.items():
            if container.status in ("exited", "dead"):
                code = container.attrs["State"]["ExitCode"]
                log = self.service(service).logs(DEATH_LINES).strip().replace("\n", "\n  ")
                return f"{service} ended with status {code}. Its last log lines:\n  {log}"
        return ""

    def states(self) -> dict[str, str]:
        """Return the current state of each container by service; empty if the lab was removed."""
        return labels.states(self.name)

    def another(self) -> "Lab":
        """Return the same lab with connections of its own, for a thread that may wait for a node that hangs."""
        other = replace(self)
        other.all_containers.learn_from(self.all_containers)
        return other

    def is_in_use(self) -> bool:
        """Return whether the process that started it still runs: a run or a test then uses it; do not remove it."""
        return any(map(owners.is_alive, self.owners))

    def is_idle(self) -> bool:
        """Return whether it is this checkout's, and the processes that started it are known to have ended."""
        return all(map(owners.is_left, self.owners))

    @property
    def owners(self) -> set[str]:
        """The processes that started its containers, as marks."""
        return {container.labels.get(labels.LABEL, "") for container in self.containers.values()}

    def down(self) -> None:
        """Remove everything of this lab. Its data are removed too, so nothing is shut down cleanly."""
        leftovers.remove(self.name)
        note_removal(self.name)


def _cpus(facts: machine.EngineMachine) -> list[int]:
    """Return the CPUs that containers may use: this process's, or all of the engine's machine if it is another."""
    if facts.elsewhere or not hasattr(os, "sched_getaffinity"):
        return list(range(facts.cpus))
    return sorted(os.sched_getaffinity(0))
