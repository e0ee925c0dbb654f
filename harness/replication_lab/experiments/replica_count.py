"""What do 1, 5, 10 and 20 replicas cost their source?"""

from collections.abc import Iterator
from contextlib import contextmanager

from replication_lab import Case, Inserts, Lab, Preset, Proof, Server, experiment
from replication_lab.model.experiment.measuring import AlsoProves, Watch
from replication_lab.probes.semisync import SemiSyncWatch, connection, wait_until_acknowledged
from replication_lab.replication import source_replica
from replication_lab.workloads.replicated_inserts import InsertsWithCpu
from replication_lab.world.clock import wait_until
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync

MOST = 20
# Between two inserts. Without it a fast source sends several rows to a replica at once, and each costs less: rates
# would be compared, not numbers of replicas.
THINK_MS = 1.0
# Set on every node: how fast a disk flushes is no cost of a replica.
RELAXED = {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0}


def workload(case: Case, preset: Preset) -> InsertsWithCpu:
    """Return the load: one client, with pauses, and as many rows as the preset says."""
    rows = preset.sizes["waiting_rows" if case.state.replication == "semisync" else "rows"]
    return InsertsWithCpu(rows, THINK_MS, case.settings["replicas"])


def prepare(lab: Lab) -> None:
    """Give the source and the client one half of the CPUs, the replicas and the proxy the other; create the table."""
    replicas = [node.name for node in lab.topology.replicas]
    lab.pin_cpus((lab.topology.source.name, "load"), (*replicas, "toxiproxy"))
    for node in lab.topology.nodes:
        lab.node(node.name).server().set_global(**RELAXED)
    Inserts().prepare(lab)


@contextmanager
def arrange(lab: Lab, case: Case) -> Iterator[Watch]:
    """Let as many replicas replicate as the case says, and as many acknowledge; yield the watch that proves it."""
    count, acknowledgements = case.settings["replicas"], case.settings.get("acknowledgements", 1)
    source = lab.node(lab.topology.source.name).server()
    nodes = [lab.node(node.name).server() for node in lab.topology.replicas]
    connected, others = nodes[:count], nodes[count:]
    semisync = SemiSync(source)
    with source_replica.restored(lab):
        semisync.set(False, acknowledgements=1)
        for each in others:
            Replica(each).stop()
        # A thread that sends the log to a replica ends only when it notices that the replica has left.
        wait_until(lambda: _followers(source) == count, f"{source.name} to send its log to {count} replicas")
        if case.state.replication == "semisync":
            semisync.set(True, timeout_ms=10_000, acknowledgements=acknowledgements)
            wait_until_acknowledged(source)
        point = semisync.status().wait_point
        yield AlsoProves(
            SemiSyncWatch(source, connected, case.state.replication, point, "proxy"),
            lambda: [
                Proof.same(
                    f"{source.name} sends its log to the replicas of the case", str(_followers(source)), str(count)
                ),
                # Servers without the choice wait for one.
                Proof.same(
                    "a commit waits for the acknowledgements of the case",
                    str(semisync.status().acknowledgements or 1),
                    str(acknowledgements),
                ),
                *(connection(each, "") for each in others),
            ],
        )


def _followers(source: Server) -> int:
    return len(source.rows(source.dialect.followers))


experiment(
    topology=f"semisync-x{MOST}",
    engines=("mariadb", "mysql-8.0", "mysql", "percona"),
    compared=("source_cpu_ms",),
    load=workload,
    prepare=prepare,
    arrange=arrange,
)
