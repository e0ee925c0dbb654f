"""An attachment: links of a Compose project that the lab did not write, each with a Toxiproxy of its own between."""

import shlex
from collections.abc import Iterable

import msgspec

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


class ComposeCall(msgspec.Struct, frozen=True):
    """How `docker compose` is called for the project: the options before its command. What is empty is left to it."""

    project: str
    files: list[str]
    directory: str
    env_files: list[str] = []
    profiles: list[str] = []

    @property
    def options(self) -> list[str]:
        return [*(("--project-directory", self.directory) if self.directory else ()), *self._choice]

    @property
    def _choice(self) -> list[str]:
        """The options that choose the project, which `lab attach` and Compose have in common."""
        return [
            *(("--project-name", self.project) if self.project else ()),
            *(part for file in self.files for part in ("--file", file)),
            *(part for file in self.env_files for part in ("--env-file", file)),
            *(part for profile in self.profiles for part in ("--profile", profile)),
        ]

    def typed(self, *command: str) -> str:
        """Return a command of Compose for this project as a user types it."""
        return shlex.join(["docker", "compose", *self.options, *command])

    def attached_by(self, links: Iterable[object], *more: str) -> str:
        """Return the command that attaches these links of this project, as a user types it."""
        return shlex.join(
            ["./lab", "attach", *self._choice, *(part for link in links for part in ("--link", str(link))), *more]
        )


class Consumer(msgspec.Struct, frozen=True):
    """A service whose connections cross a link, as it was before: to be compared with after.

    `count` is the number of its containers, `config_hash` Compose's hash of its settings, empty if that is a new one
    after each recreation. `parts` has a digest of each part of the settings of each container. `unnamed` maps each of
    its volumes that have no name of the project's to the folder where it is mounted.
    """

    service: str
    count: int
    config_hash: str
    parts: tuple[dict[str, str], ...] = ()
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


class Replicating(msgspec.Struct, frozen=True):
    """How a server replicated: `channels` maps each channel that ran to its source, HOST:PORT.

    `members` is how many members of its cluster it saw, `acknowledging` how many replicas its commits waited for.
    `healthy` is whether its container was. `level_with` is the server of the project that it had caught up with.
    """

    port: int
    channels: dict[str, str] = {}
    members: int = 0
    acknowledging: int = 0
    healthy: bool = True
    level_with: str = ""


class Attachment(msgspec.Struct, frozen=True):
    """All that is needed to use an attached project, and to restore it.

    `nodes` maps each database server to its role, `ports` to its port. `follows` maps each replica to its source.
    `doors` are the networks on which the servers are reached; `is_internal` means that each network of an added
    service is internal, which needs one more. `hosts` maps a server that uses another service's network to that one.
    `servers` are all servers of the project that answered, nodes or not, as they replicated before, by the names of
    their containers. `endpoint` is the proxy that clients of drills use, as SERVICE:PORT, `manager` the service of the
    project's own failover manager.
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
    hosts: dict[str, str] = {}
    servers: dict[str, Replicating] = {}
    endpoint: str = ""
    manager: str = ""

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

    @property
    def again(self) -> str:
        """The command that attaches the same links."""
        return self.compose.attached_by(f"{link.source}:{link.target}:{link.port}" for link in self.links)

    def door(self, node: str) -> int:
        """Return the port of DOOR behind which a node's server answers."""
        return FIRST_DOOR + list(self.nodes).index(node)

    @property
    def endpoint_door(self) -> int:
        """The port of DOOR behind which the endpoint answers."""
        return FIRST_DOOR + len(self.nodes)


def _as_link(link: AttachedLink) -> Link:
    upstream = f"{link.server}:{link.port}"
    return Link(link.name, f"0.0.0.0:{link.port}", upstream, link.source, link.target, (link.name,))
