"""The description of the machine and of a run's labs, recorded to interpret its figures later."""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.event import LabCameUp
from replication_lab.world import catalogue, host
from replication_lab.world.disks import array
from replication_lab.world.docker import beside_nodes, compose_version, machine, reach, sites
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server

# The variables to record; those that an engine lacks are left out.
SETTINGS = (
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "binlog_format",
    "innodb_buffer_pool_size",
    "innodb_autoinc_lock_mode",
    "wsrep_slave_threads",
)

# Settings that say where a server is, and nothing about how it works.
PLACES = re.compile(
    r"file$|dir$|path$|basename$|index$|socket|^port$|hostname|^server_id$|^server_uuid$|address|^report_|^ssl_|^init_|^datadir"
)


def environment() -> dict[str, Any]:
    """Return a description of the machine: hardware, kernel, container software, and its other load."""
    versions = {"docker": docker_engine.client().version()["Version"], "compose": compose_version.version()}
    files = reach.machine_files(host.LOAD, host.PRESSURES)
    load = {"load1": host.load1(files), "cpu_pressure": host.cpu_pressure(files)}
    return {**host.describe(), **versions, **load, **_elsewhere(), **beside_nodes.described()}


def _elsewhere() -> dict[str, Any]:
    """Return what the figures depend on if the engine runs on another machine."""
    found = machine.facts()
    rootless = {"rootless": True} if found.rootless else {}
    if not found.elsewhere:
        return rootless
    described = {"machine": found.processor, "cpus": found.cpus, "memory_mib": found.memory_mib, "kernel": found.kernel}
    cpu = host.cpu_model(reach.machine_files(host.CPUS))
    return {**rootless, **described, "system": found.system, "elsewhere": found.elsewhere, "cpu": cpu}


def came_up(
    lab: Lab,
    server: Server,
    settings: Sequence[str] = (),
    disks: str = "",
    not_applicable: dict[str, str] | None = None,
    about: str = "",
) -> LabCameUp:
    """Return the record's line for a lab that came up, from one of its servers; `disks` are its disks' costs."""
    return LabCameUp(
        engine=lab.engine,
        version=_version(lab, server),
        topology=lab.topology.name,
        images=lab.image_digests(),
        settings=server.settings(*dict.fromkeys([*SETTINGS, *settings]))
        | _storage(lab)
        | _machines(lab, disks)
        | {f"CPUs of {service}": cpus for service, cpus in sorted(lab.pinned.items())}
        | {f"image of {service}": origin for service, origin in lab.image_origins().items()}
        | {f"site of {service}": str(site) for service, site in sorted(sites.of(lab.name).items())},
        not_applicable=not_applicable or {},
        about=about,
        changed=_changed(server),
    )


def _changed(server: Server) -> dict[str, str]:
    """Return the settings that were set. A server that cannot tell them is measured all the same."""
    with suppress(LabError):
        return {name: value for name, value in server.changed_settings().items() if not PLACES.search(name)}
    return {}


def _version(lab: Lab, server: Server) -> str:
    """Return the version of a lab's servers, or of one node for each that differs."""
    if len(lab.different_nodes) == 1:
        return server.version()
    return ", ".join(f"{node} {lab.node(node).server().version()}" for node in lab.different_nodes)


def _storage(lab: Lab) -> dict[str, str]:
    """Return the storage of each node with disks of its own: "raid0 of 2 disks by btrfs on loop devices, not md"."""
    found = {}
    for node, each in array.arrays(lab).items():
        storage, about = each.storage, catalogue.backend(each.storage.backend).about
        not_md = "" if "md" in about else ", not md"
        found[f"storage {node}"] = f"{storage.level} of {storage.members} {storage.disk} by {about}{not_md}"
    return found


def _machines(lab: Lab, disks: str) -> dict[str, str]:
    """Return the launcher of the virtual machines, and their disks' costs: absolute figures depend on both."""
    machines = {f"machine {node}": launcher for node, launcher in replication.of(lab).machines().items()}
    return machines and machines | {"disks of machines": disks}
