"""A Compose project that runs: what its files say of each service, and what its containers are."""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.lab.attachment import DOOR

MYSQL = 3306
# Ports that a server's image exposes besides the one for clients: the X protocol, and those of a cluster.
NOT_FOR_CLIENTS = frozenset({33060, 33061, 33062, 4444, 4567, 4568})
SERVERS = ("mysqld", "mariadbd")
# The data directory of every server.
DATA = "/var/lib/mysql"
DATADIR = re.compile(r"--datadir[= ](\S+)")
OF_SERVER = re.compile(r"mysql|mariadb")


@dataclass(frozen=True)
class Running:
    """One container of a service, as the engine describes it.

    `image` is the image that it runs, `named_image` the one that has its image's name now. `addresses` maps networks of
    the engine to its addresses. `program` is its entrypoint with its command. `kept` are the folders in it that outlast
    the container.
    """

    name: str
    status: str = "running"
    config_hash: str = ""
    image: str = ""
    named_image: str = ""
    files: tuple[str, ...] = ()
    directory: str = ""
    addresses: Mapping[str, str] = field(default_factory=dict)
    exposed: frozenset[int] = frozenset()
    program: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[str, ...] = ()

    @property
    def is_database(self) -> bool:
        return any(server in self.program for server in SERVERS) or MYSQL in self.exposed

    @property
    def keeps_data(self) -> bool:
        """Whether a server's data outlast its container: they are on a volume or in a folder of the host."""
        told = DATADIR.search(self.program)
        if told:
            return any(told[1].startswith(folder.rstrip("/")) for folder in self.kept)
        return any(OF_SERVER.search(folder) for folder in self.kept if not folder.startswith("/etc/"))


@dataclass(frozen=True)
class ComposeProject:
    """A project: its document as `docker compose config` resolves it, and its containers by service."""

    name: str
    document: Mapping[str, Any]
    running: Mapping[str, list[Running]]

    def service(self, name: str) -> dict[str, Any]:
        """Return a service of the files; LabError if there is none of that name."""
        services = self.document.get("services", {})
        if name not in services:
            way_on = f"docker compose --project-name {self.name} config --services"
            if name in self.running:
                raise LabError(
                    f"{name} runs in {self.name}, but is not in the files: its profile is not active",
                    "--profile with the profile of the service, and the same -f as at its start",
                    way_on,
                )
            raise unknown_name(
                f"service of {self.name}", name, services, way_on, "a link cannot lead to another project"
            )
        return services[name] or {}

    def containers(self, service: str) -> list[Running]:
        return self.running.get(service, [])

    def networks(self, service: str) -> list[str]:
        """Return the networks of a service, by their names in the files."""
        return sorted(self.service(service).get("networks") or {})

    @property
    def internal(self) -> list[str]:
        """The networks that have no way out."""
        return sorted(name for name, one in self.document.get("networks", {}).items() if (one or {}).get("internal"))

    def databases(self) -> list[str]:
        """Return the services that run a database server."""
        return sorted(
            name
            for name, containers in self.running.items()
            if name in self.document.get("services", {})
            and not name.startswith(DOOR)
            and any(one.is_database and one.status == "running" for one in containers)
        )

    def port(self, service: str) -> int:
        """Return the port at which a server takes clients: the one that its image or its files name."""
        found = set(self._ports(service)) - NOT_FOR_CLIENTS
        if MYSQL in found or not found:
            return MYSQL
        if len(found) > 1:
            raise LabError(
                f"{service} has the ports {', '.join(map(str, sorted(found)))}; it is unknown which one is for SQL",
                "a link with the port for SQL",
                f"--link CONSUMER:{service}:{min(found)}",
            )
        return found.pop()

    def _ports(self, service: str) -> Iterator[int]:
        declared = self.service(service)
        for one in declared.get("expose") or []:
            number = str(one).partition("/")[0]
            if number.isdecimal():
                yield int(number)
        yield from (int(one["target"]) for one in declared.get("ports") or [] if "target" in one)
        for container in self.containers(service):
            yield from container.exposed

    def names(self, service: str, consumer: str) -> list[str]:
        """Return the names by which a consumer can reach a service on their networks."""
        declared = self.service(service)
        found = [service, declared.get("container_name"), *(one.name for one in self.containers(service))]
        for network in (declared.get("networks") or {}).values():
            found += (network or {}).get("aliases") or []
        for link in self.links(consumer):
            target, _, alias = link.partition(":")
            found += [alias] if target == service else []
        return list(dict.fromkeys(filter(None, found)))

    def links(self, service: str) -> list[str]:
        """Return the `links` that the files give a service."""
        return list(self.service(service).get("links") or [])

    def extra_hosts(self, service: str) -> dict[str, str]:
        """Return the names in the hosts file of a service. Compose writes NAME=ADDRESS or NAME:ADDRESS."""
        found = self.service(service).get("extra_hosts") or []
        if isinstance(found, Mapping):
            return {name: str(address) for name, address in found.items()}
        pairs = (one.partition("=") if "=" in one else one.partition(":") for one in found)
        return {name: address for name, _, address in pairs}

    def by_address(self, consumer: str, service: str) -> Iterator[str]:
        """Yield the settings of a consumer that lead to a server without its name, in words."""
        addresses = {each for one in self.containers(service) for each in one.addresses.values() if each}
        published = {str(one["published"]) for one in self.service(service).get("ports") or [] if one.get("published")}
        for container in self.containers(consumer)[:1]:
            for key, value in container.environment.items():
                if any(_has_word(value, address) for address in addresses):
                    yield f"{key} contains the address of {service}, and an alias redirects only a name"
                elif "host.docker.internal" in value and (
                    any(_has_word(value, port) for port in published)
                    or any(container.environment.get(other) in published for other in _port_keys(key))
                ):
                    yield f"{key} leads to the port of {service} on the host"


def _has_word(text: str, word: str) -> bool:
    at = text.find(word)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(word) : at + len(word) + 1]
        if not before.isalnum() and not after.isalnum() and not (after == "." and _is_address(word)):
            return True
        at = text.find(word, at + 1)
    return False


def _is_address(word: str) -> bool:
    try:
        return bool(ipaddress.ip_address(word))
    except ValueError:
        return False


def _port_keys(key: str) -> list[str]:
    """Return the usual names of the variable with the port that belongs to a host's."""
    return [key.replace("HOST", "PORT"), key.replace("HOSTNAME", "PORT")] if "HOST" in key else []
