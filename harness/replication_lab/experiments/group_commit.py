"""Do clients that commit at the same time share the flushes of a durable binary log?"""

from replication_lab.experiments._declared import experiment
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.experiment import Preset
from replication_lab.model.experiment.lab_spec import LabSpec
from replication_lab.model.lab.storage import Storage
from replication_lab.workloads.inserts import Inserts
from replication_lab.world.docker.lab import Lab

TOPOLOGY = "single"
CLIENTS = (1, 4, 16, 64)
ENGINES = ("mariadb", "mysql-5.5", "mysql-5.6", "mysql-8.0")
# A flush takes one turn, 8.3 ms: long compared with what a server computes for a commit.
ON_A_DISK = LabSpec(TOPOLOGY, storage=(("server", Storage(level="single", disk="sata-7200")),))
# A commit is on the disk, in the binary log and in InnoDB, before it is answered.
DURABLE = {"sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1"}


def workload(case: Case, preset: Preset) -> Inserts:
    """Return inserts of single rows by the clients of the case, for as long as the preset says."""
    return Inserts(case.state.clients, seconds=preset.sizes["seconds"])


def prepare(lab: Lab) -> None:
    """Give the server one half of the CPUs and its clients the other; create the table and the script."""
    lab.pin_cpus(("server",), ("load",))
    Inserts().prepare(lab)


experiment(
    topology=TOPOLOGY,
    engines=ENGINES,
    default_engines=ENGINES,
    cases=[
        Case(f"clients-{n}", f"{n} client{'s' if n > 1 else ''}", {"clients": str(n), **DURABLE}, lab=ON_A_DISK)
        for n in CLIENTS
    ],
    load=workload,
    prepare=prepare,
)
