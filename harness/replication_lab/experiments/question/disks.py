"""The emulated disks of a question's cases: the lab that a case needs, and the proof of their limits over its load."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from replication_lab.faults.disks import DiskLimits
from replication_lab.faults.fault import injected
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.experiment import Arrange
from replication_lab.model.experiment.measuring import AlsoProves, Watch
from replication_lab.model.lab.storage import ALONE, AUTO, Storage
from replication_lab.model.lab.topology import Topology
from replication_lab.model.question.setting import DISK, NONE, STORAGE, Values, setting
from replication_lab.probes import disk_activity
from replication_lab.world import catalogue
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks.array import Array
from replication_lab.world.disks.spindle import Stats
from replication_lab.world.docker.lab import Lab

# The storage of a lab's nodes, as LabSpec has it.
Placed = tuple[tuple[str, Storage], ...]
DEFAULT_DISK = "ssd"


def storage_of(settings: Values, varied: Collection[str], topology: Topology) -> Placed | None:
    """Return the storage of a lab's nodes by these settings; None if none names any. `varied` differ between cases.

    A setting without a node applies to all replicas; a setting of one node takes precedence. Raise LabError for disks
    that the lab cannot have.
    """
    asked = [each for each in map(setting, settings) if each.is_of_disks]
    nodes, replicas = ([node.name for node in each] for each in (topology.nodes, topology.replicas))
    if missing := [each.what for each in asked if not each.node and not replicas]:
        raise LabError(
            f"{missing[0]} applies to all replicas, and {topology.name} has no replicas",
            f"{missing[0]} for a single node",
            f"--{missing[0]} {nodes[0]}={settings[missing[0]]}",
        )
    if not asked:
        return None
    # Virtual machines have disks of their own even if none are requested.
    up.storage_of(topology.name, [], [f"--{STORAGE}"], disk=DEFAULT_DISK, backend=AUTO)
    found = dict(topology.storage)
    for node in nodes:
        common = {each.what: each.name for each in asked if not each.node and node in replicas}
        if names := common | {each.what: each.name for each in asked if each.node == node}:
            found.pop(node, None)
            found |= _storage_of(node, names, settings, varied, topology)
    return tuple(sorted(found.items()))


def _storage_of(
    node: str, names: Mapping[str, str], settings: Values, varied: Collection[str], topology: Topology
) -> dict[str, Storage]:
    """Return {node: storage} by the settings of these names; empty for a node without emulated disks."""
    level = settings[names[STORAGE]] if STORAGE in names else ALONE
    disk = settings[names[DISK]] if DISK in names else DEFAULT_DISK
    if level != NONE:
        return up.storage_of(topology.name, [f"{node}={level}"], disk=disk, backend=AUTO)
    # If levels vary, one of them may be without disks: then a model of disks is no contradiction.
    if DISK in names and (names[DISK] in varied or names[STORAGE] not in varied):
        raise LabError(
            f"{names[DISK]} is {disk}, but {node} has no emulated disks with {names[STORAGE]}=none",
            "a storage level other than none where a disk model is given",
            f"--vary {names[STORAGE]}=single,raid0, or leave out {names[DISK]}",
        )
    return {}


def on_disks(arrange: Arrange[Lab]) -> Arrange[Lab]:
    """Return the arrangement of a case that also proves the limits of its disks, before and after the load."""

    @contextmanager
    def arranged(lab: Lab, case: Case) -> Iterator[Watch]:
        storage = dict(case.lab.storage or ()) if case.lab else {}
        with arrange(lab, case) as watch, ExitStack() as stack:
            limited = [
                stack.enter_context(injected(DiskLimits(lab, [node], catalogue.disk(each.disk).limits)))
                for node, each in storage.items()
            ]
            found = {node: arrays.array(lab, node) for node in storage}
            before = {node: disk_activity.look(array) for node, array in found.items()}
            yield AlsoProves(
                watch,
                lambda: [*map(_mounted, found.values()), *(proof for each in limited for proof in each.end())],
                counted=lambda: _work(found, before),
            )

    return arranged


def _work(found: Mapping[str, Array], before: Mapping[str, list[Stats]]) -> dict[str, float]:
    """Return the work of nodes' disks since then: writes and flushes a second, and the share of time they were busy."""
    figures: dict[str, float] = {}
    after = {node: disk_activity.look(array) for node, array in found.items()}
    for node, array in found.items():
        work = disk_activity.work(array, before[node], after[node])
        figures |= {
            f"{node}_disk_writes_per_second": round(work.writes_per_second, 1),
            f"{node}_disk_flushes_per_second": round(work.flushes_per_second, 1),
            f"{node}_disk_busy": round(work.busy, 3),
        }
    return figures


def _mounted(array: Array) -> Proof:
    mounted = array.is_mounted()
    what = f"{array.node}'s data are on {array.storage.level} of {array.storage.members} {array.storage.disk}"
    return Proof.same(what, "mounted" if mounted else "not mounted", "mounted")
