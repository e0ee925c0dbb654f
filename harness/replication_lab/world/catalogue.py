"""The data by name: topologies, toxics, drills, disks and engines; the user's own files come before the lab's."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from replication_lab.model.core.errors import LabError, refuse_unknown, unknown_name
from replication_lab.model.experiment.published import Source
from replication_lab.model.lab import size
from replication_lab.model.lab.condition import FORMS, is_written, parse_condition
from replication_lab.model.lab.disk import Disk, parse_disks
from replication_lab.model.lab.endpoint import EndpointKind
from replication_lab.model.lab.manager import ManagerKind
from replication_lab.model.lab.storage import AUTO, Backend
from replication_lab.model.lab.topology import Topology, parse_topology
from replication_lab.model.lab.toxic import Toxic, parse_toxic
from replication_lab.world import folders, own, revisions

ROOT, PACKAGE, RUNS = folders.DATA, folders.PACKAGE, folders.RUNS
COMPOSE = ROOT / "compose"
STORAGE = COMPOSE / "storage"
ENDPOINTS = COMPOSE / "endpoints"
MANAGERS = COMPOSE / "managers"
TOXICS = ROOT / "toxics"
# Data of drills that are no drill themselves.
FORBIDDEN, PROMISES, SOAK = (PACKAGE / "drills" / f"{name}.yaml" for name in ("forbidden", "promises", "soak"))
IMAGES = ROOT / "images"
# The include that chooses the engine of a topology: engines/${ENGINE:-mariadb}.yaml.
DEFAULT_ENGINE = re.compile(r"engines/\$\{ENGINE:-([^}]+)\}\.yaml")


def topologies() -> list[str]:
    shipped = [name for name in _names(COMPOSE, ".yaml") if not name.startswith("_")]
    return sorted({*shipped, *own.files("topologies", ".yaml")})


def _refuse_unknown(name: str) -> None:
    if not _is_topology(_file_name(name)):
        raise unknown_name("topology", name, topologies(), "./lab list topologies")


def _is_topology(name: str) -> bool:
    """Return whether `topologies` has the name; a run asks for the same few many times, and needs no list for that."""
    return name in own.files("topologies", ".yaml") or (not name.startswith("_") and _has(COMPOSE, f"{name}.yaml"))


def _file_name(topology: str) -> str:
    """Return the name of a topology's file: without its size and its commit."""
    name = topology.partition(revisions.SEPARATOR)[0]
    return name if _is_topology(name) else size.split(name)[0]


def is_resized(topology: str) -> bool:
    """Return whether a topology has a size of its own (fanout-x20), so that its Compose file is made for each lab."""
    return _file_name(topology) != topology.partition(revisions.SEPARATOR)[0]


def _has(folder: Path, file: str) -> bool:
    return "/" not in file and (folder / file).is_file()


def topology(name: str) -> Topology:
    _refuse_unknown(name)
    file = compose_file(name)
    with own.explained(file):
        return _parsed_topology(name, compose_text(name), own.file_of(file))


# A question or a list of drills reads the same few files many times.
_parsed_topology, _parsed_toxic, _resized = cache(parse_topology), cache(parse_toxic), cache(size.resized)


def resized(name: str, replicas: int | None, relays: int | None) -> str:
    """Return the name of a topology with these numbers of replicas and relays; None leaves the one of its file."""
    if replicas is None and relays is None:
        return name
    given = len(topology(name).replicas) if replicas is None else replicas
    return size.Size(given, relays or 0).name_of(_file_name(name))


def compose_text(topology: str) -> str:
    """Return the text of a topology's Compose file; of one with a size of its own, it is made from its base's."""
    file = compose_file(topology)
    text, name = file.read_text(), topology.partition(revisions.SEPARATOR)[0]
    asked = size.split(name)[1] if is_resized(name) else None
    return _resized(file.stem, text, asked, str(file.parent), own.shown(file)) if asked else text


def _names(folder: Path, ending: str) -> list[str]:
    """Return the names of a folder's files without that ending, in order; none if there is no such folder."""
    found = os.listdir(folder) if folder.is_dir() else []
    return sorted(name.removesuffix(ending) for name in found if name.endswith(ending))


def topology_of(file: Path, name: str = "") -> Topology | None:
    """Return the topology of a Compose file that a lab was started with, from any folder; None if it is not there.

    `name` is that of a topology with a size of its own, whose file is named after the lab. It may be anything.
    """
    name = name if size.NAME.fullmatch(name) else file.stem
    if file.parent != COMPOSE and file.is_file():
        with suppress(LabError, OSError):
            return _parsed_topology(name, file.read_text())
    return topology_named(name)


def topology_named(name: str) -> Topology | None:
    """Return the topology of a name that may be anything; None if there is none."""
    # OSError: longer than a file's name can be.
    with suppress(LabError, OSError):
        if _is_topology(_file_name(name)):
            return topology(name)
    return None


def compose_file(topology: str) -> Path:
    """Return the Compose file of a topology: the user's own, or else the lab's; of TOPOLOGY@COMMIT as it was then."""
    name, commit = _file_name(topology), topology.partition(revisions.SEPARATOR)[2]
    file = own.files("topologies", ".yaml").get(name, COMPOSE / f"{name}.yaml")
    return revisions.at(commit, file) if commit else file


def commit(revision: str, topology: str) -> str:
    """Return the commit of a revision that has a topology's Compose file."""
    found = revisions.resolved(revision, compose_file(topology))
    compose_file(f"{topology}{revisions.SEPARATOR}{found}")
    return found


def default_engine(topology: str) -> str:
    """Return the engine of a topology if none is named: the one that its Compose file uses without ENGINE."""
    _refuse_unknown(topology)
    found = DEFAULT_ENGINE.search(compose_file(topology).read_text())
    if not found:
        raise LabError(
            f"{own.shown(compose_file(topology))} names no engine to use by default",
            "engines/${ENGINE:-NAME}.yaml under include",
            "compare with compose/async.yaml",
        )
    return found[1]


def toxics() -> list[str]:
    return sorted({*_names(TOXICS, ".json"), *own.files("toxics", ".json")})


def toxic_file(name: str) -> Path:
    return own.files("toxics", ".json").get(name, TOXICS / f"{name}.json")


def toxic(name: str, kind: str = "toxic") -> Toxic:
    """Return the toxic of that name, or of that condition by number (40ms); `kind` is what an error calls it."""
    if name not in own.files("toxics", ".json") and not _has(TOXICS, f"{name}.json"):
        if is_written(name):
            return _condition(name, kind)
        raise unknown_name(kind, name, toxics(), "./lab toxic", f"a condition {FORMS}")
    file = toxic_file(name)
    with own.explained(file) as text:
        return _parsed_toxic(name, text, own.file_of(file))


@cache
def _condition(text: str, kind: str) -> Toxic:
    return parse_condition(text, kind).toxic()


def toxics_on(names: Mapping[str, str]) -> dict[str, Toxic]:
    """Return the toxics of links, by their names or conditions by number."""
    return {link: toxic(name) for link, name in names.items()}


def drills(topology: str) -> list[str]:
    folder = _file_name(topology)
    shipped = _names(PACKAGE / "drills" / folder, ".yaml")
    return sorted({*shipped, *own.files(f"drills/{folder}", ".yaml")})


def drill_file(topology: str, name: str) -> Path:
    folder = _file_name(topology)
    return own.files(f"drills/{folder}", ".yaml").get(name, PACKAGE / "drills" / folder / f"{name}.yaml")


def workloads() -> dict[str, Path]:
    """Return the user's own workloads, by name: scripts for sysbench, and transactions in SQL."""
    return own.files("workloads", ".lua", ".sql")


@cache
def disks() -> dict[str, Disk]:
    return parse_disks((STORAGE / "disks.yaml").read_bytes())


def disk(name: str) -> Disk:
    refuse_unknown("disk", name, disks(), "./lab list disks")
    return disks()[name]


@cache
def backends() -> dict[str, Backend]:
    """Return the backends of arrays: the files of compose/storage/ that define one."""
    files = {path.stem: path for path in STORAGE.glob("*.yaml") if not path.stem.startswith("_")}
    found = {name: msgspec.yaml.decode(path.read_bytes()) for name, path in sorted(files.items())}
    return {name: msgspec.convert(each["x-storage"], Backend) for name, each in found.items() if "x-storage" in each}


def backend(name: str) -> Backend:
    if name not in backends():
        raise unknown_name("storage backend", name, [AUTO, *backends()], "./lab up --help")
    return backends()[name]


def endpoints() -> list[str]:
    return _names(ENDPOINTS, ".yaml")


@cache
def endpoint(name: str) -> EndpointKind:
    refuse_unknown("endpoint", name, endpoints(), "./lab up --help")
    return msgspec.yaml.decode((ENDPOINTS / f"{name}.yaml").read_bytes(), type=EndpointKind)


def managers() -> list[str]:
    return _names(MANAGERS, ".yaml")


@cache
def manager(name: str) -> ManagerKind:
    refuse_unknown("manager", name, managers(), "./lab up --help")
    return msgspec.yaml.decode((MANAGERS / f"{name}.yaml").read_bytes(), type=ManagerKind)


# Kinds of replication that every server has, so that no row of engines.yaml lists them.
OF_EVERY_SERVER = {"async", "none"}


class Engine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of engines.yaml: a server that a node can be, and its features."""

    about: str
    version: str
    source: str
    dialect: str
    features: frozenset[str] = frozenset()
    lacks: dict[str, str] = {}
    # The vendor's image, for an engine that is not built here.
    image: str = ""
    # The processors that its programs are built for; empty for all that the distribution supports.
    processors: tuple[str, ...] = ()
    megabytes: int = 600
    # MiB of memory of a server after its start, without rows.
    idle_mib: int = 100


# Prepared at import: msgspec crashes (SIGSEGV) if several threads are the first to use a type at the same moment.
msgspec.json.Decoder(Engine)


@cache
def engines() -> dict[str, Engine]:
    text = (Path(__file__).parent / "engines.yaml").read_bytes()
    return msgspec.yaml.decode(text, type=dict[str, Engine])


class Tested(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recorded test of an engine, an experiment or the drills of a topology: when, in which version, how it ended."""

    what: str
    day: str
    version: str
    processor: str
    outcome: str


@cache
def sources() -> dict[str, Source]:
    """Return the publications that experiments cite, by name (sources.yaml)."""
    return msgspec.yaml.decode((Path(__file__).parent / "sources.yaml").read_bytes(), type=dict[str, Source])


@cache
def tested() -> dict[str, list[Tested]]:
    """Return what was tested on each engine, the latest first (tested.yaml); an engine without a record is left out."""
    text = (Path(__file__).parent / "tested.yaml").read_bytes()
    return msgspec.yaml.decode(text, type=dict[str, list[Tested]])


def engine(name: str) -> Engine:
    """Return the engine of that name; LabError if there is none."""
    refuse_unknown("engine", name, engines(), "./lab list engines")
    return engines()[name]


def topologies_for(name: str) -> list[str]:
    """Return the topologies whose features the engine has."""
    return [each for each in topologies() if _replicates(name, topology(each))]


def engines_for(topology: Topology) -> list[str]:
    """Return the engines with the features that the topology needs."""
    return [each for each in engines() if _replicates(each, topology)]


def _replicates(name: str, topology: Topology) -> bool:
    return topology.replication in engines()[name].features | OF_EVERY_SERVER


def engine_for(topology: Topology, name: str, command: str = "") -> Engine:
    """Return the engine of that name; LabError also if it lacks what the topology's replication needs.

    `command` is the user's command without its --engine option, by default the start of the topology; the error
    suggests it with another engine.
    """
    command = command or f"up {topology.name}"
    found = engine(name)
    if not _replicates(name, topology):
        able = sorted(engines_for(topology))
        why = f": {found.lacks[topology.replication]}" if topology.replication in found.lacks else ""
        raise LabError(
            f"engine {name} has no {topology.replication}, which {topology.name} needs{why}",
            f"one of {', '.join(able) or '(none)'}",
            f"./lab {command} --engine {able[0]}" if able else "./lab list engines",
        )
    return found
