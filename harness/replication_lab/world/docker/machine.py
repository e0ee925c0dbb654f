"""The machine that the Docker engine runs on: this one, a virtual machine such as Docker Desktop's, or another host.

What this process reads of its own machine says nothing about another one.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from docker.errors import ImageNotFound

from replication_lab.model.core.errors import LabError
from replication_lab.world.docker import compose_version, engine
from replication_lab.world.docker.client import EngineClient

DESKTOP = "Docker Desktop"
ROOTLESS = "name=rootless"
# The first engine that drops a neighbour's packets to ports published on 127.0.0.1, and the versions in which a reload
# of firewalld removed the rules for it.
LOOPBACK_ONLY = (28, 0, 0)
LOST_AT_RELOAD = ((28, 2, 0), (28, 3, 3))
HERE = ("unix://", "npipe://", "tcp://localhost", "tcp://127.0.0.1")
# The image whose container reads the free space for images: its root is on the disk of the engine's data.
READER_NAME = "clients"
READER = f"replication-lab/{READER_NAME}"
READ_FREE = "import shutil; print(shutil.disk_usage('/').free)"


class EngineMachine(msgspec.Struct, frozen=True):
    """The engine's machine; `elsewhere` is the reason why it is not this machine, empty if it is.

    `engine_id` tells this engine from others.
    """

    system: str
    processor: str
    cpus: int
    memory_mib: int
    kernel: str
    version: str = ""
    rootless: bool = False
    elsewhere: str = ""
    engine_id: str = ""


@cache
def facts() -> EngineMachine:
    """Return the facts of the running engine's machine, read once."""
    return facts_of(engine.client().info(), engine.processor())


def facts_at(site: str) -> EngineMachine:
    """Return the facts of the machine of a site's engine, by its endpoint; empty for the command's own."""
    return facts_of(engine.of_site(site).info(), engine.processor(), f"the site {site}") if site else facts()


def facts_of(info: Mapping[str, Any], processor: str, elsewhere: str = "") -> EngineMachine:
    """Return the facts that an engine's `docker info` has, compared with this machine's unless it is `elsewhere`."""
    found = EngineMachine(
        system=info.get("OperatingSystem", ""),
        processor=processor,
        cpus=info.get("NCPU", 0),
        memory_mib=info.get("MemTotal", 0) >> 20,
        kernel=info.get("KernelVersion", ""),
        version=info.get("ServerVersion", ""),
        rootless=ROOTLESS in (info.get("SecurityOptions") or []),
        engine_id=info.get("ID", ""),
    )
    return msgspec.structs.replace(found, elsewhere=elsewhere or _elsewhere(found))


def _elsewhere(found: EngineMachine) -> str:
    if found.system == DESKTOP:
        return f"{DESKTOP} runs the engine in a virtual machine"
    if platform.system() != "Linux":
        return f"on {platform.system()} the engine runs in a virtual machine"
    if not is_near():
        return f"DOCKER_HOST leads to {os.environ['DOCKER_HOST']}"
    if found.kernel and found.kernel != platform.release():
        return f"the engine's kernel is {found.kernel}, this machine's is {platform.release()}"
    return ""


def reached_by_neighbours(found: EngineMachine) -> str:
    """Return why other machines may reach ports that are published on 127.0.0.1; empty if they cannot.

    They send packets for a container to the engine's machine, which passes them on. A rootless engine and that of
    Docker Desktop have a network of their own, to which no neighbour can send.
    """
    version = compose_version.numbers(found.version)
    if found.rootless or found.system == DESKTOP or (platform.system() != "Linux" and is_near()):
        return ""
    if not version:
        return f"unknown for an engine of version {found.version or 'unknown'}"
    if version < LOOPBACK_ONLY:
        return f"Docker {found.version} lets machines of the same network segment reach ports published on 127.0.0.1"
    if LOST_AT_RELOAD[0] <= version < LOST_AT_RELOAD[1]:
        return f"after a reload of firewalld, Docker {found.version} lets other machines reach ports of 127.0.0.1"
    return ""


def is_another(engine_id: str) -> bool:
    """Return whether a kept ID is that of another engine; a file of an earlier version has none, which fits any."""
    return engine_id not in ("", facts().engine_id)


def is_shared() -> bool:
    """Return whether other machines may use the engine, too: it runs neither here nor in a virtual machine of ours."""
    found = facts()
    return bool(found.elsewhere) and not (is_near() and (found.system == DESKTOP or platform.system() != "Linux"))


def is_near() -> bool:
    """Return whether ports that the engine publishes on its loopback are reached on this machine's."""
    return (os.environ.get("DOCKER_HOST") or HERE[0]).startswith(HERE)


def refuse_rootless(what: str) -> None:
    """Raise LabError if the engine is rootless, for what needs devices and mounts of its host."""
    if facts().rootless:
        raise LabError(
            f"the Docker engine is rootless, and {what} need devices and mounts of its host",
            "an engine that is run by root",
            "docker context use default; ./lab doctor",
        )


def free_megabytes(there: EngineClient) -> int | None:
    """Return the free space of an engine, in MB; None if it is on another machine and cannot be read there."""
    if not there.site and not facts().elsewhere:
        root = Path(there.info()["DockerRootDir"])
        folder = next((path for path in (root, *root.parents) if path.exists()), Path("/"))
        return shutil.disk_usage(folder).free // 1_000_000
    try:
        there.images.get(READER)
    except ImageNotFound:
        return None
    read = _read_there(there.site).strip()
    return int(read) // 1_000_000 if read.isdigit() else None


def _read_there(site: str) -> str:
    # By Docker's own client: the SDK loses the output of a container that ends at once, on a busy machine.
    how = ("run", "--rm", "--pull", "never", "--network", "none", "--entrypoint", "python3")
    command = [*engine.command_for(site), *how, READER, "-c", READ_FREE]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
