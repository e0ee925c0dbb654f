"""The overlay that puts nodes' data on arrays of emulated disks: which backend this host can give, and its text."""

from collections.abc import Iterable

import jinja2
import msgspec
from docker.errors import ContainerError

from replication_lab.model.errors import LabError
from replication_lab.model.storage import AUTO, Backend, Storage
from replication_lab.world import catalogue
from replication_lab.world.disks import spindle
from replication_lab.world.docker import engine

# The array's is also what the kernel is asked in.
IMAGES = ("spindle", "array")
MACHINE = "vm"
# Real md first; then what is as fast; then what every host has.
PREFERENCE = ("md", "btrfs", MACHINE)
LINKS = "/dev/replication-lab"
# The kernel's own words; asked in a container, since the engine may run in another machine than this process.
LOOK = "cat /proc/filesystems; ls -d /dev/* /dev/net/* /proc/mdstat 2>/dev/null; true"


def with_backend(wanted: dict[str, Storage]) -> dict[str, Storage]:
    """The same with a backend that this host can give in place of auto; LabError says what its kernel lacks."""
    if not wanted:
        return {}
    words = set(_kernel().split())
    return {node: _settled(storage, words) for node, storage in wanted.items()}


def _settled(storage: Storage, words: set[str]) -> Storage:
    tried = PREFERENCE if storage.backend == AUTO else (storage.backend,)
    lacks = {name: missing(catalogue.backend(name), words) for name in tried}
    for name, lacking in lacks.items():
        if not lacking:
            return msgspec.structs.replace(storage, backend=name)
    said = "; ".join(f"{name} needs {' and '.join(lacking)}" for name, lacking in lacks.items())
    modules = " or ".join(f"sudo modprobe {catalogue.backend(name).module}" for name in lacks)
    raise LabError(f"this host's kernel lacks something: {said}", "all that one of them needs", modules)


def missing(backend: Backend, words: Iterable[str]) -> list[str]:
    """What a backend needs and these words of the kernel do not show."""
    needs, shown = backend.needs, set(words)
    return [
        *(f"the file system {each}" for each in needs.filesystems if each not in shown),
        *(f"the device {each}" for each in needs.devices if each not in shown),
        *(f"the file {each}" for each in needs.files if each not in shown),
    ]


def _kernel() -> str:
    try:
        return (
            engine.client()
            .containers.run(
                "replication-lab/array",
                ["-c", LOOK],
                entrypoint="sh",
                remove=True,
                network_disabled=True,
                cap_drop=["ALL"],
                volumes={"/dev": {"bind": "/dev", "mode": "ro"}},
            )
            .decode()
        )
    except ContainerError as error:
        raise LabError(f"the host's kernel cannot be asked: {error}", "its file systems and devices") from error


def overlay(lab: str, topology: str, storages: dict[str, Storage]) -> str:
    """The Compose file of a lab's storage, by node."""
    template = (catalogue.STORAGE / "overlay.yaml.j2").read_text()
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
    return environment.from_string(template).render(
        lab=lab,
        topology=catalogue.compose_file(topology),
        folder=catalogue.STORAGE,
        arrays=[_described(lab, node, storage) for node, storage in storages.items()],
    )


def disk_names(node: str, storage: Storage) -> list[str]:
    """The services of a node's disks, in order."""
    return [f"{storage.place or node}-disk{number}" for number in range(1, storage.members + 1)]


def images(storages: dict[str, Storage]) -> tuple[str, ...]:
    """The images that these need from images/, backends chosen or not."""
    machine = (MACHINE,) if MACHINE in {storage.backend for storage in storages.values()} else ()
    return (*IMAGES, *machine) if storages else ()


def array_names(storages: dict[str, Storage]) -> list[str]:
    """The services that have to be there before the nodes' containers are made: arrays of the engine's host."""
    return [array_name(node, storage) for node, storage in storages.items() if storage.backend != MACHINE]


def array_name(node: str, storage: Storage) -> str:
    """The service that makes a node's array; Compose starts the disks under it."""
    if storage.backend == MACHINE:
        return node
    return f"{storage.place or node}-array"


def volume_name(lab: str, place: str) -> str:
    """The engine's name of the volume that holds a node's data."""
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
