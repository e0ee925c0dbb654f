"""Did servers keep the variables that a drill set?"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.drill import KEEPS_SETTINGS
from replication_lab.witnesses.sampled import ANSWER_SECONDS, Sampled
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab

# By how much the moment of a server's start, computed from its whole seconds of uptime, may vary.
START_VARIES = 3.0


def variables(lab: Lab, names: Mapping[str, Sequence[str]]) -> Sampled:
    """Return the witness of these variables, by node; what they are now is what they have to stay."""
    # A query to a frozen node locks its connection.
    apart = lab.another()
    return Sampled(KEEPS_SETTINGS, {node: _KeptVariables(apart, node, each) for node, each in names.items()})


@dataclass
class _KeptVariables:
    """The variables of one node as they were; a server that was started again since has its start values."""

    lab: Lab
    node: str
    names: Sequence[str]
    first: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.first, self.started = self._read()

    def _read(self) -> tuple[dict[str, str], float]:
        """Return the values, and the moment of the server's start."""
        try:
            with closing(self.lab.node(self.node).server().within(ANSWER_SECONDS)) as server:
                up = server.rows("SHOW GLOBAL STATUS LIKE 'Uptime'")[0]["Value"]
                return server.settings(*self.names), clock.timer() - float(up)
        except LabError:
            # A restarted container has another port.
            self.lab.refresh()
            raise

    def __call__(self) -> list[str]:
        found, started = self._read()
        if started > self.started + START_VARIES:
            return []
        return [
            f"{name} was {value} on {self.node}, not {self.first[name]}"
            for name, value in found.items()
            if value != self.first[name]
        ]
