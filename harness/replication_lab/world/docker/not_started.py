"""Why a lab does not start: containers that cannot become healthy, and what they say of it."""

import re
from collections.abc import Sequence
from contextlib import suppress

from docker.models.containers import Container

from replication_lab.model.core.errors import LabError
from replication_lab.world import lab_files
from replication_lab.world.docker import labels, servers
from replication_lab.world.docker.client import UNANSWERED, EngineGone
from replication_lab.world.docker.lab import DEATH_LINES, Lab
from replication_lab.world.packets import large_packets

# The first words of a machine's health check after it failed to start its disks or its server for good.
GIVEN_UP = "the machine did not start its disks or its server"
# The health check of a replica whose server has given up, or is refused in a way that no retry changes: the reason.
NOT_REPLICATING = re.compile(
    r"serving, not replicating: (?:IO|SQL) thread (?:No: (?P<stopped>\S.*)"
    r"|Connecting: (?P<refused>.*(?:Authentication plugin|Access denied|not allowed to connect).*))",
    re.DOTALL,
)


def has_lost_one(name: str, services: Sequence[str] = ()) -> bool:
    """Return whether a container of these services (default: all) cannot become healthy; waiting would take minutes."""
    found = {container.labels.get(labels.SERVICE, ""): container for container in labels.containers(name)}
    return any(_is_lost(one) for service, one in found.items() if service in services or not services)


def dropped_packets(lab: Lab) -> LabError | None:
    """Return the error for a link that drops packets of full size; None also if a far end does not answer at all."""
    with suppress(LabError):
        return large_packets.refusal(lab.links)
    return None


def _is_lost(container: Container) -> bool:
    """Return whether a container has ended, its machine has given up starting, or its server has given up its source.

    The health checks of images/vm/guest/server and images/database/lab-health report the last two.
    """
    if container.status in ("exited", "dead") or _refused_by_its_source(container):
        return True
    status, outputs = _health(container)
    return status == "unhealthy" or any(output.startswith(GIVEN_UP) for output in outputs)


def _health(container: Container) -> tuple[str, list[str]]:
    """Return what a container's health check says of it, empty without one, and its outputs, the last one last."""
    found = container.attrs["State"].get("Health", {})
    return found.get("Status", ""), [check["Output"].strip() for check in found.get("Log") or ()]


def _refused_by_its_source(container: Container) -> str:
    """Return the server's error if a replica cannot replicate from its source; an empty string if it can."""
    _, outputs = _health(container)
    found = NOT_REPLICATING.match(outputs[-1]) if outputs else None
    return (found["stopped"] or found["refused"]) if found else ""


def _refused_ports(lab: Lab, said: str, last: str) -> LabError | None:
    if "cannot assign requested address" in said:
        expected = "one of the engine's machine: `ip address` there lists them"
        return LabError(f"the engine's machine has no such --site-address:\n  {last}", expected, "./lab up --help")
    if "address already in use" not in said and "port is already allocated" not in said:
        return None
    advice = "unset LAB_PORT_*: the lab then chooses free ports itself"
    if lab_files.file_of(lab.name, lab_files.SITES).exists():
        advice = "./lab down for the other lab there, or another --site-address: these ports are fixed"
    return LabError(f"a host port is taken:\n  {last}", "free ports", advice)


def why_not_started(lab: Lab, said: str = "") -> LabError:
    """Return the error for a lab that does not start, by its containers and by what Compose has said."""
    lab.refresh()
    last = "\n  ".join(said.strip().splitlines()[-4:])
    if any(each in said for each in UNANSWERED):
        return failed(said)
    if refused := _refused_ports(lab, said, last):
        return refused
    for service, container in lab.containers.items():
        if reason := _refused_by_its_source(container):
            return _cannot_follow(lab, service, reason)
    if dropped := dropped_packets(lab):
        return dropped
    # Report a lost node first: it is the reason why others do not become healthy.
    for service, container in sorted(lab.containers.items(), key=lambda each: not _is_lost(each[1])):
        status, outputs = _health(container)
        if container.status != "running" or status not in ("", "healthy"):
            checked = outputs[-1] if outputs else "no health check answered"
            log = lab.service(service).logs(DEATH_LINES).strip().replace("\n", "\n  ")
            return LabError(
                f"{service} did not become healthy ({container.status}; {checked}). Its last log lines:\n  {log}",
                "a healthy server that replicates",
                "./lab doctor",
            )
    return failed(said)


def failed(said: str) -> LabError:
    """Return the error for what Compose has said."""
    last = "\n  ".join(said.strip().splitlines()[-4:])
    if any(each in said for each in UNANSWERED):
        return EngineGone(last)
    return LabError(f"docker compose up failed:\n  {last}", "every container healthy", "./lab doctor")


def _cannot_follow(lab: Lab, service: str, reason: str) -> LabError:
    runs = servers.of_nodes(lab.topology, lab.engine)
    sources = [link.source for link in lab.topology.links if link.target == service]
    ends = [f"{node} ({runs[node]})" for node in (service, *sources)]
    return LabError(
        f"{' cannot replicate from '.join(ends)}: {reason}",
        "servers of which one can replicate from the other",
        "./lab list engines",
    )
