"""A case of an experiment: one setting of its variable, and the lab that it is measured on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.companion import AskedCompanion
from replication_lab.model.lab.storage import Storage
from replication_lab.model.lab.toxic import Toxic
from replication_lab.model.question.server_options import CaseState


@dataclass(frozen=True)
class LabSpec:
    """The lab that cases are measured on.

    An empty `engine` stands for each engine of the run. `storage` puts nodes' data on emulated disks, as (node,
    storage); None leaves them on the topology's own. `cnf` is a file that every server is started
    with. `endpoint` is the proxy in front of the nodes. `manager` lets a replica take over when the source is lost.
    `site` is the endpoint of the engine that runs it, empty for the command's own.
    """

    topology: str
    engine: str = ""
    storage: tuple[tuple[str, Storage], ...] | None = None
    cnf: GivenFile | None = None
    endpoint: AskedCompanion | None = None
    manager: AskedCompanion | None = None
    site: str = ""

    def on(self, engine: str, site: str = "") -> "LabSpec":
        """Return the lab with this engine, at this site."""
        return replace(self, engine=engine, site=site)

    @property
    def about(self) -> str:
        """Return what distinguishes it from the engine's other labs, such as "semisync, source on raid0 of 2 ssd"."""
        parts = [self.topology]
        parts += [f"{node} on {each.level} of {each.members} {each.disk}" for node, each in self.storage or ()]
        parts += [f"with {self.cnf.name}"] if self.cnf else []
        parts += [f"behind {self.endpoint}"] if self.endpoint else []
        parts += [f"with the manager {self.manager}"] if self.manager else []
        parts += [f"at {self.site}"] if self.site else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Case:
    """One setting of the experiment's variable; `needs` are the engine features that it requires.

    `links` is the toxic or condition on every link of the topology (`lan`, `85ms`, `100mbit`), or that of each link by
    its name. `settings` are those of `lab ask`: `clients`, `replication`, `wait_point`, `protocol`, and variables of
    the servers. An experiment that arranges its cases itself may have others.
    `lab` is the lab that it is measured on; if None, a lab of the experiment's topology. `compared` are the figures by
    which it is compared with another run or server (compared_figures.py); if None, those of the experiment. `toxics`
    are on its links, by the links' names, during a load. `state` is what `lab ask` sets besides; both follow from
    `links` and `settings`, unless an experiment arranges its cases itself.
    """

    name: str
    about: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    needs: frozenset[str] = frozenset()
    lab: LabSpec | None = None
    compared: tuple[str, ...] | None = None
    toxics: Mapping[str, Toxic] = field(default_factory=dict)
    state: CaseState = field(default_factory=CaseState)
    links: str | Mapping[str, str] = ""

    @property
    def added_ms(self) -> float:
        """The shortest round trip in ms that the toxics add to a link; 0 without toxics."""
        return min((toxic.shortest_trip_ms for toxic in self.toxics.values()), default=0)
