"""The project's own data: which topologies, toxics, engines and experiments there are."""

from functools import cache
from pathlib import Path

import msgspec

from harness.errors import LabError, unknown_name
from harness.topology import Topology, parse_topology
from harness.toxic import Toxic, parse_toxic

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "runs"


def topologies() -> list[str]:
    return sorted(path.stem for path in (ROOT / "compose").glob("*.yaml") if not path.stem.startswith("_"))


def topology(name: str) -> Topology:
    if name not in topologies():
        raise unknown_name("topology", name, topologies(), "./lab up --help")
    return parse_topology(name, compose_file(name).read_text())


def compose_file(topology: str) -> Path:
    return ROOT / "compose" / f"{topology}.yaml"


def toxics() -> list[str]:
    return sorted(path.stem for path in (ROOT / "toxics").glob("*.json"))


def toxic(name: str) -> Toxic:
    if name not in toxics():
        raise unknown_name("toxic", name, toxics(), "./lab toxic")
    return parse_toxic(name, (ROOT / "toxics" / f"{name}.json").read_bytes())


class Engine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of engines.yaml: a server that a node can be, and what it can do."""

    about: str
    dialect: str
    features: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset({"local"})
    megabytes: int = 600


@cache
def engines() -> dict[str, Engine]:
    text = (Path(__file__).parent / "engines.yaml").read_bytes()
    return msgspec.yaml.decode(text, type=dict[str, Engine])


def engine(name: str, images: str = "local") -> Engine:
    """The engine of that name, refused where it cannot be had from `images` (local or upstream)."""
    if name not in engines():
        raise unknown_name("engine", name, engines(), "./lab up --help")
    found = engines()[name]
    if images not in found.images:
        raise LabError(
            f"engine {name} cannot be had from {images} images",
            f"LAB_IMAGES={' or '.join(sorted(found.images))}, or another engine",
            f"LAB_IMAGES={min(found.images)} ./lab up --engine {name}",
        )
    return found
