"""Inserts that a replica applies only after the last one, so that nothing else limits how fast it applies them."""

from dataclasses import dataclass

from replication_lab.model.core.proof import Proof
from replication_lab.model.experiment.measuring import PlainOutcome
from replication_lab.workloads.inserts import Inserts
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import APPLIER, Replica

# A slow disk takes 40 ms for a commit, and a preset has up to 3000 rows.
LONGEST_SECONDS = 240


@dataclass(frozen=True)
class AppliedInserts:
    """`clients` at once insert `rows` rows in all, while the applier of the topology's only replica is stopped."""

    clients: int = 1
    rows: int = 1000

    def prepare(self, lab: Lab) -> None:
        Inserts().prepare(lab)

    def run(self, lab: Lab, seed: int) -> PlainOutcome:
        """Insert, then let the replica apply; each figure is in rows a second of the time that it took."""
        source, (node,) = lab.topology.source, lab.topology.replicas
        server, log = lab.node(node.name).server(), BinaryLog(lab.node(source.name).server())
        replica, own = Replica(server), BinaryLog(server)
        replica.stop_thread(APPLIER)
        before = own.transactions()
        made = Inserts(self.clients, self.rows, keeps_samples=False).run(lab, seed)
        end, position = log.end(), log.position()
        replica.wait_until_received(end, LONGEST_SECONDS)
        waited = Proof.same(f"rows that {node.name} applied too soon", str(own.transactions() - before), "0")
        began = clock.timer()
        replica.start_thread(APPLIER)
        replica.wait_for(position, LONGEST_SECONDS)
        applied = made.commits / (clock.timer() - began)
        figures = {"applied_rows_per_second": applied, "source_rows_per_second": made.throughput}
        return PlainOutcome(made.commits, figures, proofs=[waited])
