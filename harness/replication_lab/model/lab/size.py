"""A topology with other numbers of replicas and relays than its Compose file has: its name, and a file of its own."""

import json
import re
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.topology import HOST_PORTS, Link, Topology, mapping_of, parse_topology

# A Linux bridge has 1024 ports, and each container of a lab takes one.
MOST = 1000
NAME = re.compile(r"(?P<base>[\w.-]+)-x(?P<replicas>\d{1,9})(?:-via(?P<relays>\d{1,9}))?")
HEAD = """\
# {name}: {base} with other numbers of replicas and relays, written by `lab up`. With plain Compose:
#
#     docker compose --env-file runs/labs/LAB.env -f runs/labs/LAB.topology.yaml up --wait
"""
# The link into the node with server-id N listens on this port + N; compose/engines/*.yaml dial by that rule.
FIRST_PORT = 21000
# On each node: the name of its topology, because the Compose file is named after the lab.
LABEL = "replication-lab.topology"


@dataclass(frozen=True)
class Size:
    """How many replicas, and between the source and them how many relays. LabError on creation for impossible ones."""

    replicas: int
    relays: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.replicas <= MOST:
            raise LabError(f"{self.replicas} replicas", f"1 to {MOST} replicas", "./lab up fanout --replicas 5")
        if not 0 <= self.relays <= self.replicas:
            raise LabError(
                f"{self.relays} relays for {self.replicas} replicas",
                f"0 to {self.replicas} relays: each has a replica of its own",
                "./lab up fanout --replicas 20 --relays 4",
            )

    def name_of(self, base: str) -> str:
        """Return the name of a topology of this size."""
        return f"{base}-x{self.replicas}" + (f"-via{self.relays}" if self.relays else "")


def split(name: str) -> tuple[str, Size | None]:
    """Return the base and the size of a name such as fanout-x20-via4; the name itself and None if it has no size."""
    found = NAME.fullmatch(name)
    return (found["base"], Size(int(found["replicas"]), int(found["relays"] or 0))) if found else (name, None)


def resized(base: str, text: str, size: Size, folder: str, file: str) -> str:
    """Return the Compose file of a topology of this size, made from the text of its base.

    `more` of its x-lab names the node that further replicas are like, and the one that relays are like. `folder` is
    that of the base: a path in it becomes a full one. `file` is how an error calls the base.
    """
    document, known = mapping_of(file, text), parse_topology(base, text, file)
    models: dict[str, str] = document["x-lab"].pop("more", {})
    wanted = ["replica", *(["relay"] if size.relays else [])]
    if lacking := [kind for kind in wanted if kind not in models]:
        raise LabError(
            f"{file} does not say what a further {lacking[0]} is like",
            f"x-lab with the key more, which names a node: `more: {{{lacking[0]}: NODE}}`",
            "./lab up fanout --replicas 20 --relays 4",
        )
    made = _Made(document, known, known.source.name)
    relays = _numbered("relay", range(1, size.relays + 1))
    for name in relays:
        made.add(name, made.source, models["relay"], "relay")
    own = [] if relays else [node.name for node in known.replicas][: size.replicas]
    stem = own[0] if len(known.replicas) == len(own) == 1 else "replica"
    for name in own:
        made.add(name, made.source, name, "replica")
    for at, name in enumerate(_numbered(stem, range(len(own) + 1, size.replicas + 1))):
        made.add(name, relays[at % len(relays)] if relays else made.source, models["replica"], "replica")
    name = size.name_of(base)
    return HEAD.format(name=name, base=base) + msgspec.yaml.encode(_placed(made.document(name, size), folder)).decode()


def _numbered(stem: str, numbers: Iterable[int]) -> list[str]:
    """Return the names of nodes: the first one has no number."""
    return [stem if number == 1 else f"{stem}{number}" for number in numbers]


class _Made:
    """A document whose replicas are added one by one; each gets the next server-id."""

    def __init__(self, document: dict[str, Any], known: Topology, source: str):
        self.source, self._base, self._known = source, document, known
        services = document["services"]
        self._models = {node.name: services[node.name] for node in known.replicas}
        self._services: dict[str, Any] = {source: services[source]}
        self._links: list[Link] = []
        self._toxics: dict[str, str] = {}

    def add(self, name: str, above: str, model: str, role: str) -> None:
        """Add a node like another one of the base, below the source or a relay."""
        number = len(self._services) + 1
        old = json.dumps(self._models[model])
        for before, after in (
            (rf"\b{model}-data\b", f"{name}-data"),
            (rf"\bLAB_PORT_{model.upper()}\b", f"LAB_PORT_{name.upper()}"),
            (r"--server-id=\d+", f"--server-id={number}"),
        ):
            old = re.sub(before, after, old)
        service = json.loads(old)
        service["depends_on"] = [above, *(each for each in service["depends_on"] if each != self.source)]
        if role == "relay":
            service.setdefault("environment", {})["LAB_ROLE"] = role
        self._services[name] = service
        port = FIRST_PORT + number
        self._links.append(Link(f"{above}-{name}", f"0.0.0.0:{port}", f"{above}:3306", above, name, ()))
        into_model = next(link.name for link in self._known.links if link.target == model)
        if toxic := self._known.toxics.get(into_model):
            self._toxics[f"{above}-{name}"] = toxic

    def document(self, name: str, size: Size) -> dict[str, Any]:
        """Return the whole file."""
        made = deepcopy(self._base)
        replaced = self._models.keys() | self._services.keys()
        others = {each: service for each, service in made["services"].items() if each not in replaced}
        others["toxiproxy"]["ports"] = [
            others["toxiproxy"]["ports"][0],
            *(f"127.0.0.1:{HOST_PORTS}:{link.port}" for link in self._links),
        ]
        made["services"] = {**self._services, **others}
        of_models = {f"{model}-data" for model in self._models}
        label = made["volumes"][f"{self.source}-data"]
        made["volumes"] = {key: value for key, value in made["volumes"].items() if key not in of_models}
        for node in self._services:
            made["services"][node].setdefault("labels", {})[LABEL] = name
        made["volumes"] |= {f"{each}-data": label for each in self._services}
        entries = [{"name": link.name, "listen": link.listen, "upstream": link.upstream} for link in self._links]
        made["configs"]["links"]["content"] = json.dumps(entries)
        about = f"one source, {size.replicas} replica{'s' if size.replicas > 1 else ''}"
        about += f" behind {size.relays} relay{'s' if size.relays > 1 else ''}" if size.relays else ""
        made["x-lab"] |= {"about": about, "toxics": self._toxics}
        made["name"] = f"lab-{name}"
        return made


def _placed(document: dict[str, Any], folder: str) -> dict[str, Any]:
    """Return the document with the full path of each file that it names from its folder."""

    def full(path: str) -> str:
        return path if path.startswith(("/", "$")) else f"{folder.replace('$', '$$')}/{path}"

    for service in document["services"].values():
        if "file" in service.get("extends", {}):
            service["extends"]["file"] = full(service["extends"]["file"])
    for config in document.get("configs", {}).values():
        if "file" in config:
            config["file"] = full(config["file"])
    return document | {"include": [full(each) for each in document.get("include", [])]}
