"""The machine that the Docker engine runs on: this one, a virtual machine such as Docker Desktop's, or another host.

What this process reads of its own machine says nothing about another one.
"""

import os
import platform
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from replication_lab.model.errors import LabError
from replication_lab.world.docker import engine

DESKTOP = "Docker Desktop"
ROOTLESS = "name=rootless"
HERE = ("unix://", "npipe://", "tcp://localhost", "tcp://127.0.0.1")


class EngineMachine(msgspec.Struct, frozen=True):
    """The engine's machine; `elsewhere` is the reason why it is not this machine, empty if it is."""

    system: str
    processor: str
    cpus: int
    memory_mib: int
    kernel: str
    rootless: bool = False
    elsewhere: str = ""


@cache
def facts() -> EngineMachine:
    """Return the facts of the running engine's machine, read once."""
    return facts_of(engine.client().info(), engine.processor())


def facts_of(info: Mapping[str, Any], processor: str) -> EngineMachine:
    """Return the facts that an engine's `docker info` has, compared with this machine's."""
    found = EngineMachine(
        system=info.get("OperatingSystem", ""),
        processor=processor,
        cpus=info.get("NCPU", 0),
        memory_mib=info.get("MemTotal", 0) >> 20,
        kernel=info.get("KernelVersion", ""),
        rootless=ROOTLESS in (info.get("SecurityOptions") or []),
    )
    return msgspec.structs.replace(found, elsewhere=_elsewhere(found))


def _elsewhere(found: EngineMachine) -> str:
    endpoint = os.environ.get("DOCKER_HOST", "")
    if found.system == DESKTOP:
        return f"{DESKTOP} runs the engine in a virtual machine"
    if platform.system() != "Linux":
        return f"on {platform.system()} the engine runs in a virtual machine"
    if endpoint and not endpoint.startswith(HERE):
        return f"DOCKER_HOST leads to {endpoint}"
    if found.kernel and found.kernel != platform.release():
        return f"the engine's kernel is {found.kernel}, this machine's is {platform.release()}"
    return ""


def refuse_rootless(what: str) -> None:
    """Raise LabError if the engine is rootless, for what needs devices and mounts of its host."""
    if facts().rootless:
        raise LabError(
            f"the Docker engine is rootless, and {what} need devices and mounts of its host",
            "an engine that is run by root",
            "docker context use default; ./lab doctor",
        )
