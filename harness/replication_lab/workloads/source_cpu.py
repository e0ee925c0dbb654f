"""Inserts of one client, with the CPU time that the source took for each, until the replicas have received all."""

from dataclasses import dataclass

from replication_lab.model.experiment.measuring import PlainOutcome
from replication_lab.workloads.inserts import Inserts
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica

SECONDS = 60


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
            node.wait_until_received(end, SECONDS)
        used = lab.all_containers.cpu_seconds()[source] - before
        figures = {name: value for name, value in found.figures.items() if value is not None}
        return PlainOutcome(found.commits, {**figures, "source_cpu_ms": 1000 * used / found.commits}, found.samples)
