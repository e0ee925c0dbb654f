"""The failover manager of a running lab: its containers, what it sees, and whether it may act."""

from collections.abc import Sequence
from dataclasses import dataclass

from replication_lab.model.lab.manager import ManagerKind, roles_in
from replication_lab.world import at_once
from replication_lab.world.docker.service import Service


@dataclass(frozen=True)
class RunningManager:
    """A manager of a lab, by its containers: one, or one beside each node."""

    name: str
    kind: ManagerKind
    services: tuple[Service, ...]

    def view(self) -> dict[str, str]:
        """Return the role of each node that it manages, as it sees them; LabError if one of its programs cannot."""
        return roles_in(self.said())

    def said(self) -> str:
        """Return what it prints of its view: the roles, or why it sees none; of a project's own whether it runs."""
        if not self.kind.view:
            return ", ".join(f"{each.name} runs" for each in self.services if each.state()[0] == "running")
        return "\n".join(at_once.of_each(lambda service: service.run(*self.kind.view), self.services)).strip()

    def manage(self) -> None:
        """Let it act from now on, first beside the source."""
        for service in self.services:
            service.run(*self.kind.manage)

    def quiet(self) -> None:
        """Let it only observe from now on."""
        at_once.of_each(lambda service: service.run(*self.kind.quiet), self.services)

    def switch(self, node: str) -> None:
        """Let it make a node the source, as planned; LabError if its command fails."""
        self.beside([node])[0].run(*self.kind.switchover, node)

    def beside(self, nodes: Sequence[str]) -> list[Service]:
        """Return its programs beside these nodes; the only one of a manager that has one."""
        own = self.kind.services(nodes)
        return [service for service in self.services if service.name in own]
