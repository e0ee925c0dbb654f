"""What `lab attach` refuses before anything changes: each with the service, the reason, and what to do instead."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replication_lab.attach.compose_project import ComposeProject
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.attachment import DOOR

# Namespaces that a service can share with another one, which lose their owner when that is recreated.
SHARED = ("network_mode", "pid", "ipc")
FORM = "CONSUMER:SERVER or CONSUMER:SERVER:PORT, both services of the project"


@dataclass(frozen=True)
class AskedLink:
    """A link as a user asks for it; port 0 is to be found out."""

    source: str
    target: str
    port: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.target}{f':{self.port}' if self.port else ''}"


def parse_link(text: str) -> AskedLink:
    """Return the link of app:db or app:db:3306. Raise LabError for anything else."""
    source, _, rest = text.partition(":")
    target, colon, port = rest.partition(":")
    is_number = re.fullmatch(r"[1-9]\d{0,4}", port) is not None
    if not source or not target or (colon and not is_number):
        raise LabError(f"--link {text!r} does not name two services", FORM, "./lab attach --help")
    if source == target:
        raise LabError(f"--link {text} leads from {source} to itself", FORM, "./lab attach --help")
    return AskedLink(source, target, int(port or 0))


def check_asked(asked: Sequence[AskedLink]) -> None:
    """Refuse links without a look at the project."""
    if not asked:
        raise LabError("no link is given", "--link CONSUMER:SERVER", "./lab attach -f docker-compose.yml --link app:db")
    ends = [(link.source, link.target) for link in asked]
    for each in ends:
        if ends.count(each) > 1:
            raise LabError(f"--link {':'.join(each)} is given twice", "each link once", "./lab attach --help")


def check_not_attached(name: str, services: Iterable[str]) -> None:
    """Refuse a project with the lab's own services: its containers were started from the lab's file, too."""
    if any(service.startswith(DOOR) for service in services):
        raise LabError(
            f"{name} is attached already",
            "a project that is not attached, because all of its links are given at once",
            f"./lab detach --lab {name}",
        )


def check_project(project: ComposeProject) -> None:
    """Refuse a project that does not run."""
    if not any(project.running.values()):
        raise LabError(f"{project.name} does not run", "a running project", _up(project, ""))


def check_link(project: ComposeProject, link: AskedLink) -> None:
    """Refuse a link that cannot be put between its two services."""
    for service in (link.source, link.target):
        _check_network(project, service)
        _check_runs(project, service)
    servers = project.containers(link.target)
    if len(servers) > 1:
        raise LabError(
            f"{link.target} runs in {len(servers)} containers, and a link leads to one server",
            "a service for each server",
            project.compose("ps", link.target),
        )
    if not servers[0].is_database:
        known = project.databases()
        raise LabError(
            f"{link.target} runs `{servers[0].program[:60]}`, which is not a server of the MySQL family",
            f"a service that runs one: {', '.join(known) or 'there is none'}",
            project.call.attached_by([f"{link.source}:{known[0]}"]) if known else project.compose("ps"),
        )
    if not set(project.networks(link.source)) & set(project.networks(link.target)):
        raise LabError(
            f"{link.source} and {link.target} have no network in common",
            "a network that both are in",
            project.compose("config"),
        )
    _check_names(project, link)


def _check_network(project: ComposeProject, service: str) -> None:
    mode = str(project.service(service).get("network_mode") or "")
    if not mode:
        return
    if mode == "host":
        found = f"{service} has network_mode: host, so it does not resolve the names of the project"
        expected = "a service in a network"
    elif mode.startswith(("service:", "container:")):
        found = f"{service} uses the network of {mode.partition(':')[2]} (network_mode: {mode})"
        expected = "a service with a network of its own"
    else:
        found, expected = f"{service} has network_mode: {mode}", "a service in a network of the project"
    raise LabError(found, expected, project.compose("config"))


def _check_runs(project: ComposeProject, service: str) -> None:
    containers = project.containers(service)
    for one in containers:
        if one.status != "running":
            raise LabError(f"{service} is {one.status} ({one.name})", "a running service", _up(project, service))
    if not containers:
        raise LabError(f"{service} of {project.name} does not run", "a running service", _up(project, service))


def _check_names(project: ComposeProject, link: AskedLink) -> None:
    names = set(project.names(link.target, link.source))
    addresses = {each for one in project.containers(link.target) for each in one.addresses.values() if each}
    for name, address in project.extra_hosts(link.source).items():
        if name in names or address in addresses:
            raise LabError(
                f"{link.source} has {name} at {address} in extra_hosts, which overrides any alias",
                f"a name that the network resolves: {link.source} without {name} in extra_hosts, and started again",
                _up(project, link.source),
            )
    for each in project.service(link.source).get("external_links") or []:
        if str(each).rpartition(":")[2] in names:
            raise LabError(
                f"{link.source} reaches {each} by external_links, in another project",
                f"a link between two services of the project: {link.source} without external_links, and started again",
                _up(project, link.source),
            )
    for why in project.by_address(link.source, link.target):
        raise LabError(
            f"connections of {link.source} would not cross the link: {why}",
            f"{link.source} to connect to {link.target} by its name {link.target}, and started again",
            _up(project, link.source),
        )


def check_reachable(project: ComposeProject, service: str) -> None:
    """Refuse a server that no Toxiproxy in a network of the project reaches by a name."""
    if not project.network_owner(service):
        _check_network(project, service)


def check_unchanged(project: ComposeProject, services: Sequence[str]) -> None:
    """Refuse services whose containers the files and the environment would not give again."""
    for service in services:
        raise LabError(
            f"{service} runs with settings that differ from what the files and the environment give now",
            "unchanged settings (-f, --env-file, variables), because lab detach must restore the containers as they "
            "are; or the service with its new settings",
            _up(project, service),
        )


def check_consumer(project: ComposeProject, service: str) -> None:
    """Refuse to recreate a container that could not be restored as it is."""
    for one in project.containers(service):
        if one.named_image and one.named_image != one.image:
            raise LabError(f"{service} runs an older build of its image", "its current image", _up(project, service))
        if one.unhealthy:
            raise LabError(
                f"{service} is not healthy already, by its own health check ({one.unhealthy})",
                "a consumer that is healthy, so that the lab sees that it is so again afterwards",
                project.compose("logs", "--tail", "50", service),
            )
    for other, declared in project.document.get("services", {}).items():
        shared = [key for key in SHARED if (declared or {}).get(key) == f"service:{service}"]
        if shared and project.containers(other):
            raise LabError(
                f"{other} shares {service}'s {shared[0].removesuffix('_mode')}, and would lose it when {service} is "
                "recreated",
                "a consumer whose namespaces no other service shares",
                project.compose("stop", other),
            )


def check_endpoint(project: ComposeProject, endpoint: str) -> None:
    """Refuse an endpoint that is not SERVICE:PORT of a running service that is no server itself."""
    if not endpoint:
        return
    service, _, port = endpoint.rpartition(":")
    if not service or not port.isdecimal():
        raise LabError(f"--endpoint {endpoint} is not an address", "SERVICE:PORT", "--endpoint proxysql:6033")
    expected = "the service of a proxy in front of the servers; without --endpoint clients connect to the servers"
    check_beside(project, f"--endpoint {endpoint}", service, expected)


def check_beside(project: ComposeProject, option: str, service: str, expected: str) -> None:
    """Refuse a service that does not run on a network, or is a server itself."""
    _check_network(project, service)
    _check_runs(project, service)
    if service in project.databases():
        raise LabError(f"{option}: {service} is a database server", expected, "./lab attach --help")


def _up(project: ComposeProject, service: str) -> str:
    return project.compose("up", "--detach", "--wait", service)
