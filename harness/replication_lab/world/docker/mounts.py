"""The mounts of a container, and whether what is written there survives a recreation by Compose."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from docker.errors import NotFound

from replication_lab.world.docker import engine, images
from replication_lab.world.docker.compose_call import Container

# The file systems of Docker's own volume driver whose content goes when the last container that has the volume stops.
IN_MEMORY = ("tmpfs", "ramfs")


@dataclass(frozen=True)
class Mount:
    """A folder of a container that is not its own layer; `loses` says why its content goes, empty if it stays."""

    folder: str
    loses: str = ""


def holding(mounts: Iterable[Mount], path: str) -> Mount | None:
    """Return the mount that a path lies on, the innermost of several; None if it lies in the container's own layer."""
    found = [each for each in mounts if PurePosixPath(path).is_relative_to(each.folder)]
    return max(found, key=lambda each: len(PurePosixPath(each.folder).parts), default=None)


def mounts_of(attrs: Mapping[str, Any], inherited: Collection[str], in_memory: Collection[str]) -> list[Mount]:
    """Return the mounts of a container, as the engine describes it.

    Compose hands a volume without a name on to the recreated container at the folders in `inherited`: those that its
    image or its service declares. `in_memory` are the names of volumes on tmpfs.
    """
    found = [Mount(folder, "is a tmpfs") for folder in attrs["HostConfig"].get("Tmpfs") or {}]
    named = {each.partition(":")[0] for each in attrs["HostConfig"].get("Binds") or []}
    named |= {each.get("Source", "") for each in attrs["HostConfig"].get("Mounts") or []}
    for mount in attrs.get("Mounts", []):
        name, folder = mount.get("Name", ""), mount["Destination"]
        if mount["Type"] == "tmpfs":
            found.append(Mount(folder, "is a tmpfs"))
        elif name in in_memory:
            found.append(Mount(folder, f"is the volume {name}, which is in memory"))
        elif mount["Type"] == "volume" and name not in named and folder not in inherited:
            found.append(Mount(folder, "is a volume without a name, which Compose does not keep"))
        else:
            found.append(Mount(folder))
    return found


def read(container: Container, declared: Mapping[str, Any]) -> list[Mount]:
    """Return the mounts of a container whose service is declared like this."""
    attrs = container.attrs
    without_source = {each["target"] for each in declared.get("volumes") or [] if not each.get("source")}
    names = {mount["Name"] for mount in attrs.get("Mounts", []) if mount.get("Name")}
    inherited = without_source | set(images.volumes(attrs["Config"]["Image"]))
    return mounts_of(attrs, inherited, {name for name in names if _is_in_memory(name)})


def _is_in_memory(volume: str) -> bool:
    try:
        options = engine.client().volumes.get(volume).attrs.get("Options") or {}
    except NotFound:
        return False
    return options.get("type") in IN_MEMORY
