"""The texts that name a server: an engine of the catalogue, a vendor's version, or any image."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError, refuse_unknown, unknown_name

# The vendors' official repositories, by the name before the colon.
VENDORS = {"mariadb": "mariadb", "mysql": "mysql", "percona": "percona/percona-server"}
# The vendors whose repository has the vendor's name.
OFFICIAL = [vendor for vendor, repository in VENDORS.items() if vendor == repository]
FORMS = f"a name from ./lab list engines, or {', '.join(f'{vendor}:TAG' for vendor in VENDORS)}"
_TOLD = re.compile(r"([a-z0-9.-]+)@(?!sha256:)(.+)")
_OF_NODE = re.compile(r"([a-z0-9_-]+)=(.*)")
_IMAGE = re.compile(r"[a-zA-Z0-9][\w.:/@-]*")


@dataclass(frozen=True)
class ServerName:
    """A requested server.

    `engine` is a name of the catalogue, whose Compose file and dialect the server uses; empty if the image determines
    it. `image` is run instead of the engine's own image; empty for the engine's own.
    """

    engine: str
    image: str = ""


def parse_server(text: str) -> ServerName:
    """Return the server that a text names: ENGINE, VENDOR:TAG, IMAGE with a slash, or ENGINE@IMAGE."""
    if told := _TOLD.fullmatch(text):
        return ServerName(told[1], _valid(told[2]))
    if "/" in text:
        return ServerName("", _valid(text))
    vendor, colon, tag = text.partition(":")
    if not colon:
        return ServerName(text)
    refuse_unknown("vendor", vendor, VENDORS, "./lab up --help", "--image IMAGE")
    if not tag:
        raise LabError(f"{text!r} has no tag", f"{vendor}:TAG", f"--engine {vendor}")
    return ServerName("", _valid(f"{VENDORS[vendor]}:{tag}"))


def server_text(engine: str, image: str) -> str:
    """Return the text that names an image run as this engine; if `engine` is empty, as the one found in the image."""
    _valid(image)
    if ":" not in image.rpartition("/")[2] and "@" not in image:
        image += ":latest"
    # Another text without a slash would name an engine or a vendor.
    if "/" not in image and image.partition(":")[0] not in OFFICIAL:
        image = f"docker.io/library/{image}"
    return f"{engine}@{image}" if engine else image


def lab_text(engines: Sequence[str], images: Sequence[str]) -> str:
    """Return the text that names a lab's servers, from the values of --engine and --image: for all nodes or as NODE=….

    An empty text stands for the topology's own engine.
    """
    engine_of, image_of = _of_nodes("--engine", engines), _of_nodes("--image", images)
    texts = {
        node: server_text(engine_of.get(node, ""), image_of[node]) if node in image_of else engine_of[node]
        for node in dict.fromkeys([*engine_of, *image_of])
    }
    return " ".join(f"{node}={text}" if node else text for node, text in texts.items())


def by_node(text: str, nodes: Sequence[str], default: str) -> dict[str, str]:
    """Return the text of each node's server; `default` is for nodes that the lab's text does not name."""
    given = _of_nodes("--engine", text.split())
    for node in given:
        if node and node not in nodes:
            raise unknown_name("node", node, nodes, "./lab list topologies")
    return {node: given.get(node) or given.get("") or default for node in nodes}


def text_of_nodes(servers: Mapping[str, str]) -> str:
    """Return the text of a lab with these servers of its nodes; the text of one server if all are the same."""
    if len(set(servers.values())) == 1:
        return next(iter(servers.values()))
    return " ".join(f"{node}={text}" for node, text in servers.items())


def _of_nodes(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Return the value given for each node; the key is empty for the value of all nodes."""
    found: dict[str, str] = {}
    for text in texts:
        node, value = told.groups() if (told := _OF_NODE.fullmatch(text)) else ("", text)
        if not value or node in found:
            what = f"{node or 'all nodes'} twice" if value else f"no server{f' for {node}' if node else ''}"
            form = f"[NODE=]{option.removeprefix('--').upper()}"
            raise LabError(
                f"{option} {text!r} names {what}", f"{option} {form}, once for each node", "./lab list engines"
            )
        found[node] = value
    return found


def _valid(image: str) -> str:
    if not _IMAGE.fullmatch(image):
        raise LabError(f"{image!r} is not the name of an image", "REPOSITORY:TAG", "--image registry.example/mysql:8.4")
    return image
