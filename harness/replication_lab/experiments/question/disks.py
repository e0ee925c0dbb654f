"""The emulated disks of a question's cases: the lab that a case needs, and the proof of their limits over its load."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager

from replication_lab.experiments.question.engines import engine_of
from replication_lab.faults.disk_limits import DiskLimits
from replication_lab.faults.injected import Injected, injected
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.experiment.experiment import Case
from replication_lab.model.experiment.lab_spec import LabSpec
from replication_lab.model.experiment.measuring import Watch
from replication_lab.model.lab.storage import AUTO, Storage
from replication_lab.model.lab.topology import Topology
from replication_lab.model.question.disks import DEFAULT_DISK, DISK, STORAGE, Disks, disks_of
from replication_lab.model.question.question import Question, Values
from replication_lab.probes import disk_activity
from replication_lab.world import catalogue
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks.array import Array
from replication_lab.world.disks.spindle import Stats
from replication_lab.world.docker.lab import Lab

# The storage of a lab's nodes, as LabSpec has it.
Placed = tuple[tuple[str, Storage], ...]
Arrange = Callable[[Lab, Case], AbstractContextManager[Watch]]


def lab_of(values: Values, question: Question, topology: Topology) -> LabSpec:
    """Return the lab of a case. Raise LabError for disks that it cannot have."""
    storage = storage_of({**question.settings, **values}, question.vary, topology)
    return LabSpec(topology.name, engine_of(values, question), storage)


def storage_of(settings: Values, varied: Collection[str], topology: Topology) -> Placed | None:
    """Return the storage of a lab's nodes by these settings; None if none names any. `varied` differ between cases.

    Raise LabError for disks that it cannot have.
    """
    nodes, replicas = ([node.name for node in each] for each in (topology.nodes, topology.replicas))
    if missing := [name for name in (STORAGE, DISK) if name in settings and not replicas]:
        raise LabError(
            f"{missing[0]} applies to all replicas, and {topology.name} has no replicas",
            f"{missing[0]} for a single node",
            f"--{missing[0]} {nodes[0]}={settings[missing[0]]}",
        )
    asked = disks_of(settings, varied, nodes, replicas)
    if not asked:
        return None
    # Virtual machines have disks of their own even if none are requested.
    up.storage_of(topology.name, [], [f"--{STORAGE}"], disk=DEFAULT_DISK, backend=AUTO)
    placed = {node: _storage(topology, node, each) for node, each in asked.items() if each}
    kept = {node: each for node, each in topology.storage.items() if node not in asked}
    return tuple(sorted((kept | placed).items()))


def _storage(topology: Topology, node: str, asked: Disks) -> Storage:
    return up.storage_of(topology.name, [f"{node}={asked.level}"], disk=asked.disk, backend=AUTO)[node]


def on_disks(arrange: Arrange) -> Arrange:
    """Return the arrangement of a case that also proves the limits of its disks, before and after the load."""

    @contextmanager
    def arranged(lab: Lab, case: Case) -> Iterator[Watch]:
        with arrange(lab, case) as watch, ExitStack() as stack:
            storage = dict(case.lab.storage or ()) if case.lab else {}
            limited = [
                stack.enter_context(injected(DiskLimits(lab, [node], catalogue.disk(each.disk).limits)))
                for node, each in storage.items()
            ]
            yield _OnDisks(watch, {node: arrays.array(lab, node) for node in storage}, limited) if storage else watch

    return arranged


class _OnDisks:
    """A watch that also proves that the disks kept their limits, and counts their work."""

    def __init__(self, watch: Watch, found: Mapping[str, Array], limited: list[Injected]):
        self._watch, self._arrays, self._limited = watch, found, limited
        self._before = self._looks()

    def _looks(self) -> dict[str, list[Stats]]:
        return {node: disk_activity.look(array) for node, array in self._arrays.items()}

    def figures(self) -> dict[str, float]:
        """Return the work of a node's disks: writes and flushes a second, and the share of time they were busy."""
        after, found = self._looks(), dict(self._watch.figures())
        for node, array in self._arrays.items():
            work = disk_activity.work(array, self._before[node], after[node])
            found |= {
                f"{node}_disk_writes_per_second": round(work.writes_per_second, 1),
                f"{node}_disk_flushes_per_second": round(work.flushes_per_second, 1),
                f"{node}_disk_busy": round(work.busy, 3),
            }
        return found

    def proofs(self, commits: int, fastest_ms: float | None = None) -> list[Proof]:
        told = self._watch.proofs(commits, fastest_ms)
        mounted = [_mounted(array) for array in self._arrays.values()]
        return [*told, *mounted, *(proof for each in self._limited for proof in each.end())]


def _mounted(array: Array) -> Proof:
    mounted = array.is_mounted()
    what = f"{array.node}'s data are on {array.storage.level} of {array.storage.members} {array.storage.disk}"
    return Proof(what=what, expected="mounted", found="mounted" if mounted else "not mounted", ok=mounted)
