"""What do RAID0 and RAID1 of two disks gain over one disk?"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from replication_lab import Case, Lab, Preset, experiment
from replication_lab.faults.disks import DiskLimits, changed
from replication_lab.faults.fault import injected
from replication_lab.model.experiment.measuring import Proves, Watch
from replication_lab.model.experiment.published import Words
from replication_lab.model.lab.disk import Limits
from replication_lab.workloads.disk_io import BLOCK_KB, PATTERNS, Fio
from replication_lab.world import catalogue
from replication_lab.world.disks import array as arrays
from replication_lab.world.mysql.replica import Replica

NODES = {"single": "one disk", "raid0": "RAID0 of two disks", "raid1": "RAID1 of two disks"}
JOBS = 16


# What a calibration is, and its models (of compose/storage/disks.yaml) of a single disk and of the members of an array.
CALIBRATIONS = {
    "plain": ("disks without the instance's cap", "plain-400", "plain-400"),
    # An instance passes on less than two volumes can do; the cap of the published table, shared evenly.
    "cloud": ("calibrated to the published instance's cap", "ebs-2013-tenth", "ebs-2013-tenth-shared"),
}


def _cases() -> tuple[Case, ...]:
    return tuple(
        Case(f"{name}-{node}", f"{said}, {about}", {"node": node, "disk": single if node == "single" else member})
        for name, (about, single, member) in CALIBRATIONS.items()
        for node, said in NODES.items()
    )


def workload(case: Case, preset: Preset) -> Fio:
    """Return the published test: 16 jobs, 4 KiB, direct I/O, four patterns."""
    return _fio(case.settings["node"], preset)


def _fio(node: str, preset: Preset) -> Fio:
    sizes = preset.sizes
    return Fio(node, JOBS, mib=sizes["mib"], loops=sizes["loops"], seconds=sizes["seconds"])


def fill(lab: Lab, preset: Preset) -> None:
    """Write each job's file on each array, before the disks are slow."""
    for node in NODES:
        with changed([arrays.array(lab, node)], Limits()):
            _fio(node, preset).lay_out(lab)


@contextmanager
def arrange(lab: Lab, case: Case) -> Iterator[Watch]:
    """Set the case's limits on its node's disks, while no server of the lab replicates.

    They are proved before and after the load; fio itself checks for foreign I/O.
    """
    limits = catalogue.disk(case.settings["disk"]).limits
    with ExitStack() as stack:
        for node in NODES:
            Replica(lab.node(node).server()).stop()
            stack.callback(Replica(lab.node(node).server()).start)
        yield Proves(stack.enter_context(injected(DiskLimits(lab, [case.settings["node"]], limits))).end)


def predict(case: Case, _figures: dict[str, float]) -> dict[str, float]:
    """Return the law's figures. RAID0 reads and writes as fast as all members together; RAID1 only reads so.

    With random access a member of RAID0 is idle while all jobs wait for other members. `n` jobs keep the share
    n/(n+d-1) of `d` disks busy, as customers do in a closed network of equal servers (Gordon and Newell, 1967).
    """
    limits, node = catalogue.disk(case.settings["disk"]).limits, case.settings["node"]
    reads = limits.reads_per_second * (1 if node == "single" else 2)
    writes = limits.writes_per_second * (2 if node == "raid0" else 1)
    per_job = {name: (reads if name.endswith("read") else writes) * _busy(node, name) / JOBS for name in PATTERNS}
    return {f"{name}_iops_per_job": iops for name, iops in per_job.items()} | {
        f"{name}_kb_per_job": iops * BLOCK_KB for name, iops in per_job.items()
    }


def _busy(node: str, pattern: str) -> float:
    return JOBS / (JOBS + 1) if node == "raid0" and pattern.startswith("random") else 1


def _law(calibration: str, node: str, pattern: str) -> float:
    case = {case.settings["node"]: case for case in _cases() if case.name.startswith(calibration)}
    name = f"{pattern}_iops_per_job"
    return predict(case[node], {})[name] / predict(case["single"], {})[name]


def _words() -> Words:
    """Return the predicted gains by name, and for each pattern that of plain disks in RAID0 with its bounds."""
    gains = {
        f"{calibration}-{node}-{pattern}": _law(calibration, node, pattern)
        for calibration in CALIBRATIONS
        for node in ("raid0", "raid1")
        for pattern in PATTERNS
    }
    laws = [
        {
            **{"pattern": pattern.replace("_", "-"), "name": pattern, "said": pattern.replace("_", " ")},
            **{"law": law, "low": 0.9 * law, "high": 1.1 * law},
        }
        for pattern in PATTERNS
        for law in [gains[f"plain-raid0-{pattern}"]]
    ]
    return {**gains, "laws": laws}


experiment(
    topology="raid",
    cases=_cases(),
    compared=tuple(f"{order}_{what}_iops_per_job" for order in ("random", "sequential") for what in ("read", "write")),
    words=_words(),
    engines=("mariadb", "mysql-8.0", "mysql", "mysql-5.5", "percona"),
    load=workload,
    fill=fill,
    arrange=arrange,
    predict=predict,
)
