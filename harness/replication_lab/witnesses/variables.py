"""Did servers keep the variables that a drill set?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replication_lab.model.drill.drill import KEEPS_SETTINGS
from replication_lab.witnesses.sampled import Sampled
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server

# By how much the moment of a server's start, computed from its whole seconds of uptime, may vary.
START_VARIES = 3.0


def variables(lab: Lab, names: Mapping[str, Sequence[str]]) -> Sampled:
    """Return the witness of these variables, by node; what they are now is what they have to stay."""
    kept = {node: _KeptVariables(lab.node(node).server(), each) for node, each in names.items()}
    return Sampled(KEEPS_SETTINGS, lab, kept)


@dataclass
class _KeptVariables:
    """The variables of one node as they were; a server that was started again since has its start values."""

    server: Server
    names: Sequence[str]
    first: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.first, self.started = self._read(self.server)

    def _read(self, server: Server) -> tuple[dict[str, str], float]:
        """Return the values, and the moment of the server's start."""
        up = server.rows("SHOW GLOBAL STATUS LIKE 'Uptime'")[0]["Value"]
        return server.settings(*self.names), clock.timer() - float(up)

    def __call__(self, server: Server) -> list[str]:
        found, started = self._read(server)
        if started > self.started + START_VARIES:
            return []
        return [
            f"{name} was {value} on {server.name}, not {self.first[name]}"
            for name, value in found.items()
            if value != self.first[name]
        ]
