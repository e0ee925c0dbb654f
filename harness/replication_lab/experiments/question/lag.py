"""Measure the time for which replicas still apply after a load, for a user's claims about their lag."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from replication_lab.experiments.question.load import Load
from replication_lab.experiments.question.topologies import follows_a_source
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.topology import Topology
from replication_lab.model.question.asked_claim import LAG, asks_for
from replication_lab.model.question.question import Question
from replication_lab.replication.following import followed
from replication_lab.workloads.sequential_inserts import Inserted
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.binary_log import BinaryLog


def refuse_lag_without_replicas(question: Question, topologies: Iterable[Topology]) -> None:
    """Raise LabError for a claim about the lag if a case has no replica that replicates."""
    if not asks_for(LAG, question):
        return
    for topology in topologies:
        if not follows_a_source(topology):
            raise LabError(
                f"{topology.name} has {topology.replication} replication, in which no replica has a lag",
                "a topology of a source and replicas",
                "./lab ask async … --claim 'lag[…] <= 1'",
            )
    if "none" in [*question.vary.get("replication", []), question.settings.get("replication")]:
        raise LabError(
            "a claim is about the lag, and with replication=none there is no replica",
            "replication async or semisync",
            "leave out the claim, or replication=none",
        )


@dataclass(frozen=True)
class WithLag:
    """A load that ends when each replica has applied everything; the additional time is its lag."""

    load: Load

    def run(self, lab: Lab, seed: int) -> Inserted:
        """Run the load; LabError also when a replica does not catch up."""
        found = self.load.run(lab, seed)
        ended = clock.timer()
        for replica, server in followed(lab):
            replica.wait_for(BinaryLog(server).position())
        return replace(found, lag_s=clock.timer() - ended)
