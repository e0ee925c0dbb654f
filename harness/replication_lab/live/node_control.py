"""What viewers do to a node: by the faults of the drills, one at a time for each node, and verified."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from replication_lab import faults, replication
from replication_lab.faults import disks
from replication_lab.faults.fault import proofs_of, proofs_of_recovery
from replication_lab.lab import nodes
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.disk import Limits
from replication_lab.model.live.view import ActOnNode
from replication_lab.replication import received
from replication_lab.replication.kind import Nodes
from replication_lab.world import at_once, clock, lock
from replication_lab.world.disks.spindle import Spindle
from replication_lab.world.docker.lab import Lab

RESTART, PROMOTE, REJOIN, WRITE_HERE, DISK_LIMIT = "restart", "promote", "rejoin", "write-here", "disk-limit"
# The longest wait at the end for an action that runs.
END_SECONDS = 20
ACTIONS = (*nodes.VERBS, RESTART, PROMOTE, REJOIN, WRITE_HERE, DISK_LIMIT)


class NodeControl:
    """A node, the last action on it and what was found; `changed` is called before and after each action."""

    def __init__(self, lab: Lab, name: str, disks: Mapping[str, Spindle], changed: Callable[[str, str, bool], object]):
        self.name, self._lab, self._disks, self._changed = name, lab, disks, changed
        self.asked, self.says = "", ""
        self.seen: bool | None = None
        self._busy = threading.Lock()
        self._had: dict[str, Limits] = {}
        # The verb that undoes what was done to the node by a viewer.
        self._undo = ""

    @property
    def busy(self) -> bool:
        return self._busy.locked()

    def do(self, action: str, asked: ActOnNode) -> None:
        """Begin an action; LabError if another one runs on this node."""
        if not self._busy.acquire(blocking=False):
            raise LabError(f"{self.asked} of {self.name} is still running", "one action at a time for each node")
        self.asked, self.seen, self.says = action, None, ""
        threading.Thread(target=self._done, args=(action, asked), name=f"{action} {self.name}", daemon=True).start()

    def _done(self, action: str, asked: ActOnNode) -> None:
        self._changed(self.name, action, False)
        try:
            with lock.lab_held(self._lab.name, "lab live"):
                proofs = self._proofs(action, asked)
            wrong = [proof.doubt for proof in proofs if proof.doubt]
            self.says = "; ".join(wrong or [f"{proof.what}: {proof.found}" for proof in proofs])
            self.seen = not wrong
        except LabError as error:
            self.seen, self.says = False, "; ".join(filter(None, (error.found, error.expected)))
        finally:
            self._busy.release()
        self._changed(self.name, action, True)

    def _proofs(self, action: str, asked: ActOnNode) -> list[Proof]:
        # A copy of its own: other threads may wait for a node that hangs.
        lab = self._lab.another()
        if verb := nodes.VERBS.get(action):
            if not verb.undoes:
                # Before the action: one that breaks off may have changed the node.
                ways_back = (name for name, each in nodes.VERBS.items() if each.undoes and verb.after in each.acts_in)
                self._undo = next(ways_back)
            proofs = nodes.act(lab, action, [self.name])
            if verb.undoes:
                self._undo = ""
            return proofs
        if action == RESTART:
            return _restarted(lab, self.name)
        if action == DISK_LIMIT:
            return self._limited(asked.limits)
        kind = replication.of(lab)
        if action == REJOIN:
            kind.take_back(self.name, asked.allow_data_loss)
            view = kind.view(self.name)
            return [Proof(f"{self.name} was attached as a replica", str(view), not view.error, "replicating")]
        lost = kind.take_over(self.name, asked.allow_data_loss).lacks if action == PROMOTE else ""
        return [*([Proof("lost", lost, True)] if lost else []), _accepts_writes(kind, self.name)]

    def _limited(self, changes: Mapping[str, int]) -> list[Proof]:
        """Change the limits of all disks of the node, or restore those of the start; prove them by what they report."""
        for name, disk in self._disks.items():
            self._had.setdefault(name, disk.limits())
        wanted = {name: _changed(limits, changes) for name, limits in self._had.items()}
        for name, disk in self._disks.items():
            disk.limit(wanted[name])
        found = {name: disk.limits() for name, disk in self._disks.items()}
        return [disks.set_to(found, wanted, f"the disks of {self.name} have their limits")]

    def restore(self) -> None:
        """Undo what viewers did: start or resume the node, and restore the limits of its disks."""
        # An action that runs now would otherwise come after the restoration.
        self._busy.acquire(timeout=END_SECONDS)
        undo: list[Callable[[], object]] = [
            partial(self._disks[name].limit, limits) for name, limits in self._had.items()
        ]
        if self._undo:
            undo.append(partial(clock.wait_until, self._undone, f"{self._lab.name} to be free", END_SECONDS))
        at_once.of_each(lambda act: act(), undo)

    def _undone(self) -> bool:
        """Undo the last action; return False if another command changes the lab now."""
        try:
            nodes.act(self._lab.another(), self._undo, [self.name])
        except lock.LabTaken:
            return False
        return True


def _changed(limits: Limits, changes: Mapping[str, int]) -> Limits:
    """Return limits with these changed; 0 removes a rate."""
    wanted = {name: value if name == "flush_us" else value or None for name, value in changes.items()}
    return msgspec.structs.replace(limits, **wanted)


def check_limits(changes: Mapping[str, int]) -> None:
    """Raise LabError for a limit that there is not, or a negative one."""
    known = ("write_iops", "read_iops", "bandwidth", "flush_us")
    for name, value in changes.items():
        if name not in known or value < 0:
            raise LabError(f"the limit {name} is {value}", f"{', '.join(known)}, each 0 or more")


def _restarted(lab: Lab, name: str) -> list[Proof]:
    received.keep_of_ending(lab, [name])
    fault = faults.made(lab, RESTART, [name])
    try:
        fault.inject()
        return [*proofs_of(fault), *proofs_of_recovery(fault)]
    finally:
        fault.close()


def _accepts_writes(kind: Nodes, name: str) -> Proof:
    """Prove by the node's own answers that an application can write there; LabError if it does not answer."""
    view, read_only = kind.view(name), kind.server(name).settings("read_only").get("read_only")
    found = f"{view}, read_only {read_only}"
    return Proof(f"{name} accepts writes", found, not view.error and read_only == "OFF", "read_only OFF")


def actions(state: str, role: str, kind: Nodes, *, writes_here: bool, has_disks: bool) -> list[str]:
    """Return what can be done to a node in a container's state, with this role."""
    possible: Sequence[str] = [verb for verb, each in nodes.VERBS.items() if state in each.acts_in]
    if state != nodes.RUNNING:
        return [*possible]
    found = [*possible, RESTART]
    if kind.can_take_over() and not writes_here:
        found.append(REJOIN if kind.was_replaced(role) else PROMOTE)
    if kind.writes_anywhere and not writes_here:
        found.append(WRITE_HERE)
    return [*found, DISK_LIMIT] if has_disks else found
