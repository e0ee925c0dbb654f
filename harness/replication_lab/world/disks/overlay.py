"""The overlay that puts nodes' data on arrays of emulated disks: the backend that this host supports, and its text."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.storage import AUTO, Backend, Storage
from replication_lab.world import catalogue, compose_template
from replication_lab.world.disks import spindle
from replication_lab.world.docker import machine
from replication_lab.world.docker.images import said_by

# The kernel is examined in the array's image.
IMAGES = ("spindle", "array")
MACHINE = "vm"
# In order of preference: real md; then the backend that is as fast; then the one that works on every host.
PREFERENCE = ("md", "btrfs", MACHINE)
LINKS = "/dev/replication-lab"
# The kernel's own lists; read in a container, since the engine may run in another machine than this process.
LOOK = "cat /proc/filesystems; ls -d /dev/* /dev/net/* /proc/mdstat 2>/dev/null; true"


def remembered(label: str) -> Storage | None:
    """Return the storage that a label of an array holds; None for what the lab did not write."""
    with suppress(msgspec.DecodeError, LabError):
        return msgspec.json.decode(label, type=Storage)
    return None


def with_backend(wanted: dict[str, Storage]) -> dict[str, Storage]:
    """Return the storages with a backend that this host supports in place of auto; LabError if its kernel lacks one."""
    if not wanted:
        return {}
    machine.refuse_rootless("emulated disks")
    devices = {"/dev": {"bind": "/dev", "mode": "ro"}}
    words = set(said_by("replication-lab/array", LOOK, volumes=devices)[1].split())
    return {node: _settled(storage, words) for node, storage in wanted.items()}


def _settled(storage: Storage, words: set[str]) -> Storage:
    tried = PREFERENCE if storage.backend == AUTO else (storage.backend,)
    lacks = {name: missing(catalogue.backend(name), words) for name in tried}
    for name, lacking in lacks.items():
        if not lacking:
            return msgspec.structs.replace(storage, backend=name)
    said = "; ".join(f"{name} needs {' and '.join(lacking)}" for name, lacking in lacks.items())
    modules = " or ".join(f"sudo modprobe {catalogue.backend(name).module}" for name in lacks)
    raise LabError(
        f"this host's kernel lacks a feature: {said}", "all features that one RAID implementation needs", modules
    )


def missing(backend: Backend, words: Iterable[str]) -> list[str]:
    """Return the requirements of a backend that do not occur in these words of the kernel."""
    needs, shown = backend.needs, set(words)
    return [
        *(f"the file system {each}" for each in needs.filesystems if each not in shown),
        *(f"the device {each}" for each in needs.devices if each not in shown),
        *(f"the file {each}" for each in needs.files if each not in shown),
    ]


def overlay(lab: str, compose_file: Path, storages: dict[str, Storage]) -> str:
    """Return the Compose file of a lab's storage, beside that of its topology."""
    return compose_template.filled(
        catalogue.STORAGE / "overlay.yaml.j2",
        lab=lab,
        topology=compose_file,
        arrays=[_described(lab, node, storage) for node, storage in storages.items()],
    )


def disk_names(node: str, storage: Storage) -> list[str]:
    """Return the services of a node's disks, in order."""
    return [f"{storage.place or node}-disk{number}" for number in range(1, storage.members + 1)]


def images(storages: dict[str, Storage]) -> tuple[str, ...]:
    """Return the images that these storages need from images/, also before their backends are chosen."""
    machine = (MACHINE,) if MACHINE in {storage.backend for storage in storages.values()} else ()
    return (*IMAGES, *machine) if storages else ()


def services_before_nodes(storages: dict[str, Storage]) -> list[str]:
    """Return the services of arrays on the engine's host, with their disks: they run before the nodes are made."""
    on_host = [(node, storage) for node, storage in storages.items() if storage.backend != MACHINE]
    return [name for each in on_host for name in (array_name(*each), *disk_names(*each))]


def array_name(node: str, storage: Storage) -> str:
    """Return the service that makes a node's array; Compose starts the disks under it."""
    if storage.backend == MACHINE:
        return node
    return f"{storage.place or node}-array"


def volume_name(lab: str, place: str) -> str:
    """Return the engine's name of the volume that holds a node's data."""
    return f"{lab}_{place}-data"


def _described(lab: str, node: str, storage: Storage) -> dict[str, object]:
    backend = catalogue.backend(storage.backend)
    place = storage.place or node
    links = [f"{LINKS}/{lab}/{place}-{number}" for number in range(1, storage.members + 1)]
    members = [f"device={link}" for link in links] if backend.filesystem == "btrfs" else []
    return {
        "node": node,
        "place": place,
        "launcher": storage.launcher,
        "level": storage.level,
        "backend": storage.backend,
        "disks": disk_names(node, storage),
        "command": spindle.arguments(catalogue.disk(storage.disk).limits, storage.mib << 20),
        "remembered": msgspec.json.encode(storage).decode(),
        "filesystem": backend.filesystem,
        "device": links[0] if backend.filesystem == "btrfs" else f"{LINKS}/{lab}/{place}",
        "options": ",".join([*backend.options, *members]),
    }
