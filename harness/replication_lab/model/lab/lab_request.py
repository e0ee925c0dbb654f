"""The request to start a lab."""

import re
from dataclasses import dataclass, field

from replication_lab.model.core.errors import LabError, refuse_long
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.companion import AskedCompanion
from replication_lab.model.lab.option_file import StartOptions
from replication_lab.model.lab.site import ADDRESS_OPTION, Site
from replication_lab.model.lab.spread_load import SpreadLoad
from replication_lab.model.lab.storage import Storage
from replication_lab.model.lab.topology import Topology

# Compose's rule for the name of a project.
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


@dataclass(frozen=True)
class LabRequest:
    """A lab to be started. Raise LabError on creation for a name that Compose refuses, or for an unknown link or node.

    `toxics` maps links to names in toxics/ or conditions by number, which replace the topology's own. `storage` puts
    nodes' data on arrays of emulated disks. `load` also starts the container of the clients. Without `keep` the lab
    counts as a leftover once this process has ended. With `clocks_move` a server's clock can be set. `launcher` is the
    program that runs the topology's own virtual machines; if empty, Compose's default. `options` are start options of
    nodes in addition to the lab's own. `init` are SQL files to run at the first start. `endpoint` is a proxy in front
    of the nodes. `manager` lets a replica take over when the source is lost. `sites` are the Docker engines of the
    nodes, if they are on several. At `address`, of its engine's machine, other machines reach the servers. `spread` are
    further containers of the load, which run the clients.
    """

    topology: Topology
    engine: str
    name: str
    toxics: dict[str, str] = field(default_factory=dict)
    storage: dict[str, Storage] = field(default_factory=dict)
    load: bool = False
    keep: bool = True
    clocks_move: bool = False
    launcher: str = ""
    options: dict[str, StartOptions] = field(default_factory=dict)
    init: tuple[GivenFile, ...] = ()
    endpoint: AskedCompanion | None = None
    manager: AskedCompanion | None = None
    sites: dict[str, Site] = field(default_factory=dict)
    address: str = ""
    spread: SpreadLoad | None = None

    def __post_init__(self) -> None:
        for link in self.toxics:
            self.topology.link(link)
        for node in self.storage:
            self.topology.node(node)
        for options in self.options.values():
            options.refuse_reserved()
        others = {"--storage": self.storage, "--endpoint": self.endpoint, "--manager": self.manager}
        if self.sites and (given := next((option for option, asked in others.items() if asked), "")):
            raise LabError(f"{given} for nodes on several sites", f"{given} or --site", "./lab up --help")
        companion = next((option for option in ("--endpoint", "--manager") if others[option]), "")
        if self.address and companion:
            raise LabError(
                f"{companion} with {ADDRESS_OPTION}, which publishes nodes", "one of them", "./lab up --help"
            )
        refuse_long(self.name, "lab")
        if not NAME.fullmatch(self.name):
            raise LabError(
                f"{self.name!r} is not a valid name of a lab", "lowercase letters, digits, - and _", "./lab up --help"
            )

    @property
    def wanted_toxics(self) -> dict[str, str]:
        """The toxic of each link that has one, by link."""
        return {**self.topology.toxics, **self.toxics}
