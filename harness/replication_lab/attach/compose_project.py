"""A Compose project that runs: what its files say of each service, and what its containers are."""

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.lab.attachment import DOOR, ComposeCall
from replication_lab.world.docker import compose_call, images, labels
from replication_lab.world.docker.compose_call import HASH, Container
from replication_lab.world.docker.containers import environment_of

MYSQL = 3306
# Ports that a server's image exposes besides the one for clients: the X protocol, and those of a cluster.
NOT_FOR_CLIENTS = frozenset({33060, 33061, 33062, 4444, 4567, 4568})
# The base names of the programs that are servers, and of those that run a program of another kind of CPU.
SERVERS = frozenset({"mysqld", "mariadbd", "mysqld-debug", "mariadbd-debug"})
EMULATOR = re.compile(r"qemu-\w+|rosetta")
# The name that the engine gives to a volume without one.
UNNAMED = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Running:
    """One container of a service, as the engine describes it.

    `image` is the image that it runs, `named_image` the one that has its image's name now. `addresses` maps networks of
    the engine to its addresses. `program` is its entrypoint with its command. `processes` are the command lines of its
    processes; empty if it does not run, or the engine cannot list them. `unhealthy` is what its health check printed
    last, if that says that it is not well.
    """

    name: str
    status: str = "running"
    config_hash: str = ""
    image: str = ""
    named_image: str = ""
    addresses: Mapping[str, str] = field(default_factory=dict)
    hostname: str = ""
    exposed: frozenset[int] = frozenset()
    program: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    processes: tuple[str, ...] = ()
    unhealthy: str = ""

    @property
    def is_database(self) -> bool:
        """Whether a server of the MySQL family runs in it: by its processes, else by what it was told to start."""
        if self.processes:
            return any(program_of(each) in SERVERS for each in self.processes)
        entrypoint, *words = [*takewhile(lambda word: not word.startswith("-"), self.program.split())] or [""]
        return any(os.path.basename(word) in SERVERS for word in (entrypoint, *words)) or (
            # The vendors' entrypoints start the server if no program is named.
            MYSQL in self.exposed and not words
        )


def program_of(command: str) -> str:
    """Return the base name of the program of a command line, also of one that an emulator runs."""
    names = [os.path.basename(word) for word in command.split()]
    return next((name for name in names if not EMULATOR.fullmatch(name)), "")


@dataclass(frozen=True)
class ComposeProject:
    """A project: its document as `docker compose config` resolves it, and its containers by service."""

    call: ComposeCall
    document: Mapping[str, Any]
    running: Mapping[str, list[Running]]

    @property
    def name(self) -> str:
        return self.call.project

    def compose(self, *command: str) -> str:
        """Return a command of Compose for this project, by the files that it was started from, as a user types it."""
        return self.call.typed(*filter(None, command))

    def service(self, name: str) -> dict[str, Any]:
        """Return a service of the files; LabError if there is none of that name."""
        services = self.document.get("services", {})
        if name not in services:
            way_on = self.compose("config", "--services")
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

    def network_owner(self, service: str) -> str | None:
        """Return the service whose network a service is in: itself, or that of its network_mode; None if it is none."""
        mode, _, name = str(self.service(service).get("network_mode") or "").partition(":")
        if not mode:
            return service
        if mode == "container":
            named = (
                each for each in self.document.get("services", {}) for one in self.containers(each) if one.name == name
            )
            return next(named, None)
        return self.network_owner(name) if mode == "service" else None

    def published(self, service: str) -> set[str]:
        """Return the ports of the host that lead to a service."""
        return {str(one["published"]) for one in self.service(service).get("ports") or [] if one.get("published")}

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
                f"a link with the port for SQL, such as --link CONSUMER:{service}:{min(found)}",
                "./lab attach --help",
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

    def volumes_from(self, service: str) -> list[str]:
        """Return the services whose volumes a service has, besides its own."""
        return [str(each).partition(":")[0] for each in self.service(service).get("volumes_from") or []]

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
        published = self.published(service)
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
    goes_on = r"[^\W_]|\." if is_address(word) else r"[^\W_]"
    return re.search(rf"(?<![^\W_]){re.escape(word)}(?!{goes_on})", text) is not None


def is_address(word: str) -> bool:
    try:
        return bool(ipaddress.ip_address(word))
    except ValueError:
        return False


def _port_keys(key: str) -> list[str]:
    """Return the usual names of the variable with the port that belongs to a host's."""
    return [key.replace("HOST", "PORT"), key.replace("HOSTNAME", "PORT")] if "HOST" in key else []


# --- read from the engine ---------------------------------------------------------------------------------------------


def read(call: ComposeCall, found: Mapping[str, Sequence[Container]]) -> ComposeProject:
    """Return what the files and the engine say of a project."""
    return ComposeProject(
        call,
        compose_call.document(call.options),
        {service: [_running(each) for each in containers] for service, containers in found.items()},
    )


def _running(container: Container) -> Running:
    attrs = container.attrs
    config = attrs["Config"]
    program = [*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])]
    return Running(
        name=str(container.name),
        status=container.status,
        config_hash=container.labels.get(HASH, ""),
        image=attrs["Image"],
        named_image=images.identifier(config["Image"]),
        addresses={name: one["IPAddress"] for name, one in attrs["NetworkSettings"]["Networks"].items()},
        hostname=str(config.get("Hostname") or ""),
        exposed=frozenset(int(port.partition("/")[0]) for port in config.get("ExposedPorts") or {}),
        program=" ".join(program),
        environment=environment_of(container),
        processes=compose_call.processes(container),
        unhealthy=_unhealthy(attrs["State"].get("Health") or {}),
    )


def _unhealthy(health: Mapping[str, Any]) -> str:
    if health.get("Status") != "unhealthy":
        return ""
    last = (health.get("Log") or [{}])[-1]
    return f"exit status {last.get('ExitCode', 'unknown')}: {str(last.get('Output', '')).strip()[:300] or 'no output'}"


def files_of(found: Mapping[str, Sequence[Container]], services: Sequence[str]) -> tuple[list[str], str]:
    """Return the files and the folder that the containers of these services were started from."""
    for service in services:
        for container in found.get(service, []):
            files = container.labels.get(labels.CONFIG_FILES, "")
            return split_files(files), container.labels.get(labels.WORKING_DIR, "")
    return [], ""


def split_files(text: str) -> list[str]:
    """Return the files of Compose's label, which puts commas between them: a path may have commas of its own."""
    found, path = [], ""
    for part in text.split(","):
        path = f"{path},{part}" if path else part
        if os.path.isfile(path):
            found.append(path)
            path = ""
    return [*found, path] if path else found


def unnamed_volumes(container: Container) -> dict[str, str]:
    """Return the volumes that `docker compose down --volumes` removes with this container, and the folder of each.

    The engine knows these by no name. A container that Compose recreates has the same volumes, by their names, and the
    engine keeps a volume that a container had by its name.
    """
    attrs = container.attrs
    by_name = {bind.partition(":")[0] for bind in attrs["HostConfig"].get("Binds") or []}
    by_name |= {mount.get("Source", "") for mount in attrs["HostConfig"].get("Mounts") or []}
    return {
        mount["Name"]: mount["Destination"]
        for mount in attrs.get("Mounts", [])
        if mount["Type"] == "volume" and UNNAMED.fullmatch(mount["Name"]) and mount["Name"] not in by_name
    }
