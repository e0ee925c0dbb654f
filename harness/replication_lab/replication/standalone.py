"""One server without replicas: healthy when it serves."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import ClassVar

from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.evidence import View
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.measuring import Watch
from replication_lab.model.lab.toxic import Toxic
from replication_lab.probes.commit_latency import TABLE, CommitLatency
from replication_lab.replication import following
from replication_lab.replication.kind import Nodes, register
from replication_lab.replication.role_changes import FAILOVER, ONLINE, REJOIN, STANDBY, SWITCHOVER


@register("none")
class Alone(Nodes):
    """A topology without replication."""

    experiment = "temporary_tables"
    why_fixed = "it has a single server"
    refuses: ClassVar[Mapping[str, tuple[str, str]]] = {
        FAILOVER: (why_fixed, "./lab up async"),
        SWITCHOVER: (why_fixed, "./lab up async"),
        REJOIN: (why_fixed, "./lab up async"),
        STANDBY: (why_fixed, "./lab stop {node}"),
        ONLINE: (why_fixed, "./lab start {node}"),
    }

    def view(self, name: str) -> View:
        self.server(name).version()
        return View("serving")

    def is_whole(self, name: str) -> bool:
        return bool(self.server(name).version())

    def prove(self, _toxics: Mapping[str, Toxic]) -> list[Proof]:
        """Prove that a row can be written and read back; no other node has it."""
        server, count = self.writer(), f"SELECT COUNT(*) FROM {TABLE}"
        commit = CommitLatency(server)
        before = server.value(count)
        commit.commits(1)
        after = server.value(count)
        return [Proof("a written row can be read", f"{after - before} of 1", after > before)]

    def arranged(self, case: Case) -> AbstractContextManager[Watch]:
        return following.arranged(self.lab, case)
