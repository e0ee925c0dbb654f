"""A topology with other numbers of replicas and relays than its Compose file has: its name, and a file of its own."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.topology import HOST_PORTS, Topology, mapping_of, parse_topology

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
    source = known.source.name
    relays = _numbered("relay", range(1, size.relays + 1))
    own = [] if relays else [node.name for node in known.replicas][: size.replicas]
    stem = own[0] if len(known.replicas) == len(own) == 1 else "replica"
    nodes = [(name, source, models["relay"]) for name in relays] + [(name, source, name) for name in own]
    for at, name in enumerate(_numbered(stem, range(len(own) + 1, size.replicas + 1))):
        nodes.append((name, relays[at % len(relays)] if relays else source, models["replica"]))
    _replace_replicas(document, known, nodes)
    for relay in relays:
        document["services"][relay].setdefault("environment", {})["LAB_ROLE"] = "relay"
    name = size.name_of(base)
    for node in (source, *(node for node, _, _ in nodes)):
        document["services"][node].setdefault("labels", {})[LABEL] = name
    about = f"one source, {size.replicas} replica{'s' if size.replicas > 1 else ''}"
    about += f" behind {size.relays} relay{'s' if size.relays > 1 else ''}" if size.relays else ""
    document["x-lab"]["about"], document["name"] = about, f"lab-{name}"
    return HEAD.format(name=name, base=base) + msgspec.yaml.encode(_placed(document, folder)).decode()


def _numbered(stem: str, numbers: Iterable[int]) -> list[str]:
    """Return the names of nodes: the first one has no number."""
    return [stem if number == 1 else f"{stem}{number}" for number in numbers]


def _replace_replicas(document: dict[str, Any], known: Topology, nodes: Sequence[tuple[str, str, str]]) -> None:
    """Put other replicas into a document: (name, the node above it, the node of the base that it is like).

    Each gets the next server-id.
    """
    source, others = known.source.name, document["services"]
    models = {node.name: json.dumps(others.pop(node.name)) for node in known.replicas}
    services = {source: others.pop(source)}
    links, toxics, ports = [], {}, others["toxiproxy"]["ports"][:1]
    for number, (name, above, model) in enumerate(nodes, 2):
        made = models[model]
        for before, after in (
            (rf"\b{model}-data\b", f"{name}-data"),
            (rf"\bLAB_PORT_{model.upper()}\b", f"LAB_PORT_{name.upper()}"),
            (r"--server-id=\d+", f"--server-id={number}"),
        ):
            made = re.sub(before, after, made)
        services[name] = service = json.loads(made)
        service["depends_on"] = [above, *(each for each in service["depends_on"] if each != source)]
        link, port = f"{above}-{name}", FIRST_PORT + number
        links.append({"name": link, "listen": f"0.0.0.0:{port}", "upstream": f"{above}:3306"})
        ports.append(f"127.0.0.1:{HOST_PORTS}:{port}")
        into_model = next(link.name for link in known.links if link.target == model)
        if toxic := known.toxics.get(into_model):
            toxics[link] = toxic
    others["toxiproxy"]["ports"] = ports
    document["services"] = {**services, **others}
    document["configs"]["links"]["content"] = json.dumps(links)
    document["x-lab"]["toxics"] = toxics
    label, of_models = document["volumes"][f"{source}-data"], {f"{model}-data" for model in models}
    volumes = {name: volume for name, volume in document["volumes"].items() if name not in of_models}
    document["volumes"] = volumes | {f"{name}-data": label for name in services}


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
