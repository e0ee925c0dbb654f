"""The description of a lab of an experiment's run; cases with equal descriptions are measured on the same lab."""

from dataclasses import dataclass, replace

from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.companion import AskedCompanion
from replication_lab.model.lab.storage import Storage


@dataclass(frozen=True)
class LabSpec:
    """The lab that cases are measured on.

    An empty `engine` stands for each engine of the run. `storage` puts nodes' data on emulated disks, as (node,
    storage); None leaves them on the topology's own. `cnf` is a file that every server is started
    with. `endpoint` is the proxy in front of the nodes. `manager` lets a replica take over when the source is lost.
    """

    topology: str
    engine: str = ""
    storage: tuple[tuple[str, Storage], ...] | None = None
    cnf: GivenFile | None = None
    endpoint: AskedCompanion | None = None
    manager: AskedCompanion | None = None

    def on(self, engine: str) -> "LabSpec":
        """Return the lab with this engine."""
        return replace(self, engine=engine)

    @property
    def about(self) -> str:
        """Return what distinguishes it from the engine's other labs, such as "semisync, source on raid0 of 2 ssd"."""
        disks = (f", {node} on {each.level} of {each.members} {each.disk}" for node, each in self.storage or ())
        with_file = f", with {self.cnf.name}" if self.cnf else ""
        besides = [
            *([f", behind {self.endpoint}"] if self.endpoint else []),
            *([f", with the manager {self.manager}"] if self.manager else []),
        ]
        return "".join([self.topology, *disks, with_file, *besides])
