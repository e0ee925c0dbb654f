"""The migration of a replica to other disks: stop the applier and the server, copy, switch, start, wait for sync.

The procedure is the published one. Until the switch the node has the old data directory: an error or Ctrl-C puts it
back into service. Run the same command again to resume an interrupted migration; every step may be repeated.
"""

from contextlib import contextmanager
from pathlib import Path

import msgspec

from replication_lab import replication
from replication_lab.lab import disks
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.progress import Tell
from replication_lab.model.lab.storage import Storage
from replication_lab.replication import received
from replication_lab.world import clock, files, lab_files, signals
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks import overlay
from replication_lab.world.disks.overlay import MACHINE, array_name, volume_name
from replication_lab.world.docker import images, project, volumes
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.service import Node
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.server import Server, plain

IN_SYNC_SECONDS = 1800
# As a share of an array's size; file systems keep some for themselves.
FILLED = 0.8


class Migration(msgspec.Struct, frozen=True):
    """The contents of runs/labs/NAME.migration.json, from before the first step until after the last."""

    node: str
    storage: Storage
    before: str
    lag_before_s: int | None


class Migrated(msgspec.Struct, frozen=True):
    """A finished migration: old and new storage, seconds of each step, lag in seconds, tables that were compared."""

    node: str
    before: str
    after: str
    seconds: dict[str, float]
    lag_before_s: int | None
    lag_at_start_s: int | None
    lag_after_s: int | None
    tables: int


def migrate(lab: Lab, node: str, storage: Storage, tell: Tell) -> Migrated:
    """Move a replica's data to other storage, or resume an interrupted migration."""
    _refuse_options(lab, node)
    _refuse_loss(lab, node)
    plan = _plan(lab, node, storage)
    steps = Steps(lab, plan, tell)
    if not steps.is_switched():
        try:
            steps.build()
            steps.stop()
            steps.copy()
            steps.switch()
        except BaseException:
            if not steps.is_switched():
                with signals.signals_held():
                    steps.back()
            raise
    return steps.finish()


def _refuse_options(lab: Lab, node: str) -> None:
    state = lab_files.saved_state(lab.name)
    if state and state.options.get(node):
        raise LabError(
            f"{node} was started with options (--set, --cnf), which the new container of a migration would not have",
            "a node that was started without them",
            f"./lab status --lab {lab.name}",
        )


def _refuse_loss(lab: Lab, node: str) -> None:
    """Raise LabError if the node has received what it has not applied and its source does not have.

    Its server starts again, which deletes the relay log on MariaDB; the source then sends the transactions again.
    """
    if lab.node(node).state()[0] != "running":
        return
    left, source = received.backlog(lab, node), replication.of(lab).source_of(node)
    if left and not received.comes_again(lab, source, node):
        raise LabError(
            f"{node}: {left}",
            f"a replica that has applied all, or a running source that can send it again ({source})",
            left.remedy(node) or f"./lab start {source}",
        )


def unfinished(lab: Lab) -> Migration | None:
    """Return the migration that was begun and neither finished nor undone."""
    return files.read_own_as(_plan_file(lab), Migration)


def _plan_file(lab: Lab) -> Path:
    return lab_files.file_of(lab.name, ".migration.json")


def _plan(lab: Lab, node: str, storage: Storage) -> Migration:
    if begun := unfinished(lab):
        if begun.node == node and begun.storage.level == storage.level:
            return begun
        raise LabError(
            f"an unfinished migration of {begun.node} in {lab.name} to {begun.storage.level} exists",
            "one migration at a time",
            f"./lab disk migrate {begun.node} --to {begun.storage.level}",
        )
    return _new_plan(lab, node, storage)


def _new_plan(lab: Lab, node: str, storage: Storage) -> Migration:
    """Save and return a plan; LabError, and nothing done, if the node or the disks do not suit."""
    roles, _ = replication.of(lab).arrangement()
    if roles[lab.topology.node(node).name] != "replica":
        replicas = [name for name, role in roles.items() if role == "replica"]
        raise LabError(f"{node} is not a leaf replica", f"one of {', '.join(replicas)}", "./lab status")
    array = arrays.arrays(lab).get(node)
    old = array.storage if array else None
    if old and (old.level, old.disk, old.members) == (storage.level, storage.disk, storage.members):
        raise LabError(
            f"{node} is already on {storage.level} of {storage.disk}",
            "a different level or disk model",
            "./lab disk list",
        )
    held = volumes.held_mib(lab, node)
    if held > FILLED * storage.room_mib:
        raise LabError(
            f"{node} holds {held} MiB; {storage.level} of these disks can hold {FILLED * storage.room_mib:.0f} MiB",
            "larger disks",
            f"./lab disk migrate {node} --to {storage.level} --disk-size {round(held / FILLED) + 64}",
        )
    images.ensure(overlay.IMAGES)
    [placed] = overlay.with_backend({node: storage}).values()
    if MACHINE in (placed.backend, old.backend if old else ""):
        raise LabError(
            f"{node} cannot move to or from storage in a virtual machine", "storage by md or btrfs", "./lab doctor"
        )
    # The data of the first migration are at NODE-2, of the next at NODE-3, and so on.
    number = old.place.rpartition("-")[2] if old else ""
    placed = msgspec.structs.replace(placed, place=f"{node}-{int(number or 1) + 1}")
    before = Replica(lab.node(node).server()).status()
    plan = Migration(node, placed, described(old), before.lag_seconds if before else None)
    files.write_whole(_plan_file(lab), msgspec.json.encode(plan))
    return plan


def described(storage: Storage | None) -> str:
    if storage is None:
        return "the Docker engine's disk"
    return f"{storage.level} of {storage.members} {storage.disk} by {storage.by}"


class Steps:
    """The steps of one migration; each may be repeated after it was killed."""

    def __init__(self, lab: Lab, plan: Migration, tell: Tell):
        self.lab, self.plan, self.tell = lab, plan, tell
        self.node, self.storage = plan.node, plan.storage
        self.new_volume = volume_name(lab.name, plan.storage.place)
        self.seconds: dict[str, float] = {}

    @property
    def migrated(self) -> Node:
        return self.lab.node(self.node)

    @property
    def replica(self) -> Replica:
        return Replica(self.migrated.server())

    def is_switched(self) -> bool:
        """Return whether the node's container has the new volume."""
        self.lab.refresh()
        return self.node in self.lab.containers and self.new_volume in volumes.of(self.lab, self.node)

    def build(self) -> None:
        with self._step(f"build {described(self.storage)}"):
            others = {node: array.storage for node, array in arrays.arrays(self.lab).items()}
            text = overlay.overlay(self.lab.name, project.compose_file(self.lab), others | {self.node: self.storage})
            files.write_whole(self._next_overlay, text.encode())
            project.extend(self.lab, self._next_overlay, [array_name(self.node, self.storage)])
            new = arrays.Array(self.lab, self.node, self.storage)
            slow = [proof for proof in disks.kept_limits(new) if not proof.ok]
            if slow:
                raise LabError(f"{slow[0].what}: {slow[0].found}", "the limits of the named disk", "./lab doctor")

    def stop(self) -> None:
        with self._step("stop the applier, then the server"):
            if self.migrated.state()[0] == "running":
                self.replica.stop()
                self.migrated.container.stop(timeout=30)

    def copy(self) -> None:
        with self._step("copy and compare"):
            [old] = volumes.of(self.lab, self.node)
            volumes.copy(self.lab, old, self.new_volume)

    def switch(self) -> None:
        with self._step("switch and start"):
            overlay = self._next_overlay.replace(lab_files.file_of(self.lab.name, lab_files.STORAGE))
            project.extend(self.lab, overlay, [self.node])

    def finish(self) -> Migrated:
        """Finish the migration after the switch: the new data directory is a complete copy, so there is no way back."""
        self._run_again("new", 90)
        server = self.migrated.server()
        lag_at_start = self._lag()
        with self._step("wait until in sync"):
            Replica(server).wait_for(BinaryLog(self._source()).position(), IN_SYNC_SECONDS)
        tables = self._compared()
        with self._step("remove the old data"):
            for array in arrays.known(self.lab, self.node):
                if array.storage.place != self.storage.place:
                    volumes.remove_array(self.lab, array.storage, self.node)
            volumes.remove(volume_name(self.lab.name, self.node))
        _plan_file(self.lab).unlink(missing_ok=True)
        return Migrated(
            node=self.node,
            before=self.plan.before,
            after=described(self.storage),
            seconds=self.seconds,
            lag_before_s=self.plan.lag_before_s,
            lag_at_start_s=lag_at_start,
            lag_after_s=self._lag(),
            tables=tables,
        )

    def back(self) -> None:
        """Put the old data directory into service again, and remove the new array."""
        self.tell(f"  rolled back: {self.node} runs on {self.plan.before} again")
        self._run_again("old", 60)
        volumes.remove_array(self.lab, self.storage, self.node)
        self._next_overlay.unlink(missing_ok=True)
        _plan_file(self.lab).unlink(missing_ok=True)

    @property
    def _next_overlay(self) -> Path:
        return lab_files.file_of(self.lab.name, lab_files.NEXT_STORAGE)

    @contextmanager
    def _step(self, what: str):
        self.tell(f"  {what} …")
        began = clock.timer()
        yield
        self.seconds[what] = round(clock.timer() - began, 1)

    def _run_again(self, which: str, seconds: float) -> None:
        self.lab.refresh()
        if self.migrated.state()[0] != "running":
            self.migrated.start_again()
        clock.wait_until(self.migrated.is_healthy, f"{self.node} to be healthy with its {which} data", seconds)
        self.lab.refresh()
        self.replica.start()

    def _source(self) -> Server:
        return self.lab.node(replication.of(self.lab).source_of(self.node)).server()

    def _lag(self) -> int | None:
        found = self.replica.status()
        return found.lag_seconds if found else None

    def _compared(self) -> int:
        """Compare each table's checksum with the source's; return the number of tables, LabError if one differs."""
        source, copy = self._source(), self.migrated.server()
        tables = replication.of(self.lab).tables_of(source)
        for table in tables:
            _compare(source, copy, table)
        return len(tables)


def _compare(source, copy, table: str) -> None:
    """Compare a table while clients write: its checksum must match the source's before or after the catch-up."""
    for _ in range(5):
        before = source.checksum(table)
        Replica(copy).wait_for(BinaryLog(source).position(), IN_SYNC_SECONDS)
        if copy.checksum(table) == before or copy.checksum(table) == source.checksum(table):
            return
    raise LabError(
        f"{copy.name} differs from {source.name} in {plain(table)}",
        "equal checksums",
        f"./lab sql {copy.name}; ./lab status",
    )
