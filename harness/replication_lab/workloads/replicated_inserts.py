"""Inserts, and what replicas cost or do after them: rows that one applies afterwards, CPU time that a source takes."""

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


# The longest time until a replica has received all.
RECEIVE_SECONDS = 60


@dataclass(frozen=True)
class InsertsWithCpu:
    """`rows` inserts, `think_ms` after one another; the first `replicas` of the topology receive them."""

    rows: int
    think_ms: float
    replicas: int

    def prepare(self, lab: Lab) -> None:
        Inserts().prepare(lab)

    def run(self, lab: Lab, seed: int) -> PlainOutcome:
        """Run the client; `source_cpu_ms` is the CPU time of the source's container for each insert."""
        source = lab.topology.source.name
        nodes = [Replica(lab.node(node.name).server()) for node in lab.topology.replicas[: self.replicas]]
        before = lab.all_containers.cpu_seconds()[source]
        found = Inserts(rows=self.rows, think_ms=self.think_ms).run(lab, seed)
        end = BinaryLog(lab.node(source).server()).end()
        # The source works for a replica until that has received all, which may be later than the client's last answer.
        for node in nodes:
            node.wait_until_received(end, RECEIVE_SECONDS)
        used = lab.all_containers.cpu_seconds()[source] - before
        figures = {name: value for name, value in found.figures.items() if value is not None}
        return PlainOutcome(found.commits, {**figures, "source_cpu_ms": 1000 * used / found.commits}, found.samples)
