"""An attachment: links of a Compose project that the lab did not write, each with a Toxiproxy of its own between."""

import re
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.topology import Link, Topology, TopologyNode

# The services that the lab adds: one with an entry for each server, for the lab's own queries, and one for each link.
DOOR = "lab-toxiproxy"
FIRST_DOOR = 22_001
API = 8474
# The network of the added services where all of the project's are internal: without it no port can be published.
NETWORK = "lab-attach"
# The labels of what is added: the name of the project, and the process that attaches. What they mean is in its files.
# They are not those of a lab, which a lab that knows no attachments would remove without restoring the project.
LABEL, OWNER = "replication-lab.attachment", "replication-lab.attached-by"
FORM = "CONSUMER:SERVER or CONSUMER:SERVER:PORT, both services of the project"


@dataclass(frozen=True)
class AskedLink:
    """A link as a user asks for it; port 0 is to be found out."""

    source: str
    target: str
    port: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.target}{f':{self.port}' if self.port else ''}"


def parse_link(text: str) -> AskedLink:
    """Return the link of app:db or app:db:3306. Raise LabError for anything else."""
    source, _, rest = text.partition(":")
    target, colon, port = rest.partition(":")
    is_number = re.fullmatch(r"[1-9]\d{0,4}", port) is not None
    if not source or not target or (colon and not is_number):
        raise LabError(f"--link {text!r} does not name two services", FORM, "--link app:db")
    if source == target:
        raise LabError(f"--link {text} leads from {source} to itself", FORM, "--link app:db")
    return AskedLink(source, target, int(port or 0))


class ComposeCall(msgspec.Struct, frozen=True):
    """How `docker compose` is called for the project: the options before its command. What is empty is left to it."""

    project: str
    files: list[str]
    directory: str
    env_files: list[str] = []
    profiles: list[str] = []

    @property
    def options(self) -> list[str]:
        return [
            *(("--project-name", self.project) if self.project else ()),
            *(("--project-directory", self.directory) if self.directory else ()),
            *(part for file in self.files for part in ("--file", file)),
            *(part for file in self.env_files for part in ("--env-file", file)),
            *(part for profile in self.profiles for part in ("--profile", profile)),
        ]


class Consumer(msgspec.Struct, frozen=True):
    """A service whose connections cross a link, as it was before: to be compared with after.

    `count` is the number of its containers, `config_hash` Compose's hash of its settings, `settings` a digest of each
    part of its container's settings. `unnamed` maps each of its volumes that have no name of the project's to the
    folder where it is mounted.
    """

    service: str
    count: int
    config_hash: str
    settings: dict[str, str] = {}
    unnamed: dict[str, str] = {}


class AttachedLink(msgspec.Struct, frozen=True):
    """A link: `consumer` connects to `server`, by one of `names`.

    `source` and `target` are the ends of the link: data flow from source to target. A replica connects to its source.
    """

    consumer: str
    server: str
    source: str
    target: str
    port: int
    names: list[str]
    networks: list[str]

    @property
    def name(self) -> str:
        return f"{self.source}-{self.target}"

    @property
    def service(self) -> str:
        """The name of the service with this link's Toxiproxy."""
        return f"{DOOR}-{self.name}"


class Attachment(msgspec.Struct, frozen=True):
    """All that is needed to use an attached project, and to restore it.

    `nodes` maps each database server to its role, `ports` to its port. `follows` maps each replica to its source.
    `doors` are the networks on which the servers are reached; `is_internal` means that each network of an added
    service is internal, which needs one more.
    """

    compose: ComposeCall
    links: list[AttachedLink]
    consumers: list[Consumer]
    nodes: dict[str, str]
    ports: dict[str, int]
    images: dict[str, str]
    doors: list[str]
    replication: str = "none"
    follows: dict[str, str] = {}
    internal: list[str] = []

    @property
    def topology(self) -> Topology:
        """The project as a topology: its servers as nodes, the attached links as its links."""
        return Topology(
            name=self.compose.project,
            about=f"the Compose project {self.compose.project}, attached",
            replication=self.replication,
            nodes=tuple(TopologyNode(name, role) for name, role in self.nodes.items()),
            links=tuple(map(_as_link, self.links)),
            follows=self.follows,
        )

    @property
    def added(self) -> list[str]:
        """The services that the lab adds."""
        return [DOOR, *(link.service for link in self.links)]

    def door(self, node: str) -> int:
        """Return the port of DOOR behind which a node's server answers."""
        return FIRST_DOOR + list(self.nodes).index(node)


def _as_link(link: AttachedLink) -> Link:
    upstream = f"{link.server}:{link.port}"
    return Link(link.name, f"0.0.0.0:{link.port}", upstream, link.source, link.target, (link.name,))


# --- the override file ------------------------------------------------------------------------------------------------

HEAD = """\
# Written by `lab attach` for the Compose project {project}; `lab detach --lab {project}` undoes it.
# It adds a Toxiproxy for each link. The alias under `links` overrides the name of the server, for one service only.
"""


class _InPlace(list[str]):
    """A list that replaces the one of the earlier files, where Compose would append."""


class _Dumper(yaml.SafeDumper):
    """YAML with Compose's tag for such a list."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


_Dumper.add_representer(_InPlace, lambda dumper, data: dumper.represent_sequence("!override", data, flow_style=True))


def override(attached: Attachment, owner: str, linked: dict[str, list[str]]) -> str:
    """Return the text of the override file; `linked` are the `links` that consumers have already."""
    services = {DOOR: _door(attached, owner)}
    services |= {link.service: _through(attached, link, owner) for link in attached.links}
    for consumer in attached.consumers:
        mine = [link for link in attached.links if link.consumer == consumer.service]
        services[consumer.service] = {"links": _links(mine, linked.get(consumer.service, []))}
    document: dict[str, Any] = {"services": services, "configs": _configs(attached)}
    if any(NETWORK in service.get("networks", ()) for service in services.values()):
        document["networks"] = {NETWORK: {"labels": {OWNER: owner}}}
    body = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return HEAD.format(project=attached.compose.project) + body


def _links(mine: list[AttachedLink], linked: list[str]) -> list[str]:
    replaced = {link.server for link in mine}
    kept = [each for each in linked if each.partition(":")[0] not in replaced]
    own = [f"{link.service}:{name}" for link in mine for name in link.names]
    return _InPlace([*kept, *own]) if len(kept) < len(linked) else own


def _door(attached: Attachment, owner: str) -> dict[str, Any]:
    return _service(attached, owner, DOOR, attached.doors, [attached.door(node) for node in attached.nodes])


def _through(attached: Attachment, link: AttachedLink, owner: str) -> dict[str, Any]:
    return _service(attached, owner, link.service, link.networks, [link.port])


def _service(attached: Attachment, owner: str, name: str, networks: list[str], ports: list[int]) -> dict[str, Any]:
    all_internal = set(networks) <= set(attached.internal)
    return {
        "image": "replication-lab/toxiproxy",
        "command": ["-host=0.0.0.0", "-config=/toxiproxy.json", "-proxy-metrics"],
        "configs": [{"source": name, "target": "/toxiproxy.json", "mode": 0o444}],
        "networks": [*networks, *([NETWORK] if all_internal else [])],
        "ports": [f"127.0.0.1::{port}" for port in (API, *ports)],
        "healthcheck": {
            "test": ["CMD", "/toxiproxy-cli", "list"],
            "interval": "30s",
            "timeout": "5s",
            "start_period": "30s",
            "start_interval": "200ms",
        },
        # A machine that restarts brings the project's services back, which need it to reach their servers.
        "restart": "unless-stopped",
        "stop_grace_period": "1s",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "labels": {OWNER: owner, LABEL: attached.compose.project},
    }


def _configs(attached: Attachment) -> dict[str, Any]:
    doors = [_entry(node, attached.door(node), node, attached.ports[node]) for node in attached.nodes]
    found = {DOOR: doors}
    found |= {link.service: [_entry(link.name, link.port, link.server, link.port)] for link in attached.links}
    return {name: {"content": _escaped(msgspec.json.encode(entries).decode())} for name, entries in found.items()}


def _entry(name: str, port: int, server: str, server_port: int) -> dict[str, Any]:
    return {"name": name, "listen": f"0.0.0.0:{port}", "upstream": f"{server}:{server_port}", "enabled": True}


def _escaped(text: str) -> str:
    """Return a text in which Compose replaces no variable."""
    return text.replace("$", "$$")
