"""The session that sees a row first: its writer, by the acknowledgement of the commit, or another session."""

from dataclasses import dataclass

from replication_lab.model.experiment.measuring import PlainOutcome
from replication_lab.workloads._colliding import read_ahead_ms
from replication_lab.world.docker.lab import Lab

# Thread switches and the reader's own query take a few ms on a busy machine; a WAN's round trip is far longer.
CLOCK_MS = 10.0


@dataclass(frozen=True)
class FirstSeen:
    """`rows` inserts by one writer while another session queries for each of them without pause."""

    rows: int = 10

    def run(self, lab: Lab, _seed: int) -> PlainOutcome:
        """Insert and time the rows, by one clock in one process, when the answers arrive.

        The samples are how long before its writer's answer another session read each row, in ms (negative: after).
        """
        ahead_ms = lab.clients_place.call(read_ahead_ms, lab.for_clients(lab.topology.source.name), self.rows)
        figures = {
            "trials": len(ahead_ms),
            "seen_early": sum(ahead > CLOCK_MS for ahead in ahead_ms),
            "seen_ahead_ms": round(sorted(ahead_ms)[len(ahead_ms) // 2], 3),
        }
        return PlainOutcome(len(ahead_ms), figures, {"ahead_ms": ahead_ms})
