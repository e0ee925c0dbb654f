"""The volumes that hold nodes' data: found, copied, measured, and removed with the array under them."""

from contextlib import suppress

from docker.errors import NotFound

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.storage import DATA, Storage
from replication_lab.world import owners, signals
from replication_lab.world.disks.overlay import array_name, disk_names, volume_name
from replication_lab.world.docker import engine, removal
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.labels import LABEL, PROJECT, SERVICE

# Read the copy again and compare: a full or failing disk may have truncated it.
COPY = (
    "find /to -mindepth 1 -delete && cp -a /from/. /to/ && sync -f /to && diff --recursive --brief --no-dereference "
    "/from /to"
)
COPY_SECONDS = 3600
# The file systems of Docker's own volume driver whose content goes when the last container that has the volume stops.
IN_MEMORY = ("tmpfs", "ramfs")


def of(lab: Lab, node: str) -> list[str]:
    """Return Docker's names of the volumes at a node's data directory: a list of one."""
    mounts = lab.node(node).container.attrs["Mounts"]
    return [mount["Name"] for mount in mounts if mount["Destination"] == DATA and "Name" in mount]


def held_mib(lab: Lab, node: str) -> int:
    """Return the size of a running node's data directory, in MiB."""
    return int(lab.node(node).run("du", "--summarize", "--block-size=1M", DATA).split()[0])


def copy(lab: Lab, old: str, new: str) -> None:
    """Copy `old` to `new`, owners and times included, and compare; LabError with the tool's output if they differ."""
    name = f"{lab.name}-copy"
    _remove_if_there(name)
    try:
        with signals.signals_deferred():
            copying = engine.client().containers.run(
                "replication-lab/array",
                ["-c", COPY],
                entrypoint="sh",
                name=name,
                detach=True,
                network_disabled=True,
                cap_drop=["ALL"],
                cap_add=["CHOWN", "DAC_OVERRIDE", "FOWNER"],
                labels={LABEL: owners.owner(), PROJECT: lab.name, SERVICE: "copy"},
                volumes={old: {"bind": "/from", "mode": "ro"}, new: {"bind": "/to", "mode": "rw"}},
            )
        status = copying.wait(timeout=COPY_SECONDS)["StatusCode"]
        if status:
            said = copying.logs(tail=5).decode(errors="replace").strip()
            raise LabError(
                f"copying {old} to {new} ended with status {status}: {said}", "an identical copy", "./lab status"
            )
    finally:
        _remove_if_there(name)


def _remove_if_there(name: str) -> None:
    with suppress(NotFound):
        engine.client().containers.get(name).remove(force=True)


def is_in_memory(volume: str) -> bool:
    """Return whether the content of a volume goes with the last container that has it; False if there is none."""
    try:
        options = engine.client().volumes.get(volume).attrs.get("Options") or {}
    except NotFound:
        return False
    return options.get("type") in IN_MEMORY


def remove_array(lab: Lab, storage: Storage, node: str) -> None:
    """Remove an array that no node uses: its container, its disks and their volumes."""
    lab.refresh()
    place = storage.place or node
    for service in (array_name(node, storage), *disk_names(node, storage)):
        if service in lab.containers:
            removal.remove_container(lab.containers[service])
    remove(volume_name(lab.name, place), *(f"{lab.name}_{disk}" for disk in disk_names(node, storage)))
    lab.refresh()


def remove(*names: str) -> None:
    """Remove volumes of the lab that exist."""
    client = engine.client()
    for name in names:
        with suppress(NotFound):
            removal.remove_volume(client.volumes.get(name))
