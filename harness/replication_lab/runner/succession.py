"""Who lets another node take over in a drill, and what became of it: the lab itself, or a failover manager."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from replication_lab import replication
from replication_lab.lab import managers
from replication_lab.model.core.errors import LabError, WouldLose
from replication_lab.model.core.progress import Tell
from replication_lab.model.drill.checkers import Window
from replication_lab.model.drill.drill import Drill, Step
from replication_lab.model.drill.history import ranges
from replication_lab.model.drill.writable import LONGEST_GAP_SECONDS
from replication_lab.model.lab import companion, mysql_errors
from replication_lab.model.lab.manager import AFTER, MANAGER
from replication_lab.model.lab.succession import TakenOver
from replication_lab.replication.kind import Nodes
from replication_lab.witnesses.sampled import Sampled
from replication_lab.witnesses.servers import release_all
from replication_lab.workloads.ledger import Ledger
from replication_lab.world import catalogue, clock, requests_made
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server

# Servers are asked so often. A later answer is no reading: one that was frozen has to be read soon after it goes on.
EVERY_SECONDS, ANSWER_SECONDS = 0.3, 0.5
# A server that has not said for longer that it takes writes does not take them now.
VALID_SECONDS = 0.5
SEEN_SECONDS = 5


class TakesWrites:
    """The readings of one drill, by node."""

    def __init__(self, lab: Lab):
        self._lab = lab
        self._readings: dict[str, list[tuple[float, bool]]] = {}
        # When each node was asked last, and the times in which it was asked and was not there.
        self._asked: dict[str, float] = {}
        self._absent: dict[str, list[Window]] = {}
        self._zero = self._ended = clock.timer()

    @contextmanager
    def watched(self, zero: float) -> Iterator[None]:
        """Ask each server of a source and its replicas within the block; times are told in seconds after `zero`."""
        self._zero = zero
        if not replication.kind_of(self._lab.topology).follows_a_source:
            yield
            return
        self._readings = {node.name: [] for node in self._lab.topology.nodes}
        self._absent = {node: [] for node in self._readings}
        readings = dict.fromkeys(self._readings, self._read)
        with closing(Sampled("", self._lab, readings, self._reach, self._is_running, every=EVERY_SECONDS)):
            try:
                yield
            finally:
                self._ended = clock.timer()

    def _reach(self, lab: Lab, node: str) -> Server:
        self._asked[node] = clock.timer()
        return lab.node(node).server().answering_within(ANSWER_SECONDS)

    def _read(self, server: Server) -> list[str]:
        self._asked[server.name] = clock.timer()
        try:
            takes_writes = not server.value("SELECT @@GLOBAL.read_only")
        except LabError as error:
            # As of a server that starts or stops: no client reaches it either.
            if mysql_errors.is_refused(error.__cause__):
                self._note_absent(server.name)
            raise
        self._readings[server.name].append((clock.timer(), takes_writes))
        return []

    def _is_running(self, lab: Lab, node: str) -> bool:
        """Return whether a node that did not answer runs; one that was ended or frozen takes no writes."""
        running = lab.node(node).state()[0] == "running"
        if not running:
            self._note_absent(node)
        return running

    def _note_absent(self, node: str) -> None:
        self._absent[node].append((self._asked[node], clock.timer()))

    def silent_s(self, node: str) -> float:
        """Return for how many seconds a node has not said that it takes writes; infinite if it never did."""
        return clock.timer() - max((at for at, takes in self._readings.get(node, []) if takes), default=-math.inf)

    def now(self) -> list[str]:
        """Return the nodes that take writes now."""
        return [node for node in self._readings if self.silent_s(node) <= VALID_SECONDS]

    def begun(self) -> list[tuple[float, str]]:
        """Return each time at which a node took writes that had refused them before, with the node, in order."""
        return sorted(
            (round(at - self._zero, 3), node)
            for node, own in self._readings.items()
            for (_, before), (at, after) in pairwise([*own])
            if after and not before
        )

    def spans(self) -> dict[str, list[tuple[float, float]]]:
        """Return from when until when each node took writes; nothing of one that never did."""
        found = {node: spans(own, self._zero, self._absent.get(node, [])) for node, own in self._readings.items()}
        return {node: own for node, own in found.items() if own}

    def seen(self) -> dict[str, Any]:
        """Return what evidence has of it: when each node took writes, when it was not read, and how often it was."""
        found = {
            node: gaps([at for at, _ in own], self._absent[node], self._zero, self._ended)
            for node, own in self._readings.items()
        }
        lasted = [(node, gap, gap[1] - gap[0]) for node, own in found.items() for gap in own]
        unread: dict[str, list[Window]] = {}
        for node, gap, seconds in lasted:
            if seconds > LONGEST_GAP_SECONDS:
                unread.setdefault(node, []).append(gap)
        every = max((seconds for _, _, seconds in lasted if seconds <= LONGEST_GAP_SECONDS), default=0.0)
        return {"writable": self.spans(), "unread": unread, "read_every_s": round(every, 3)}


def spans(readings: Sequence[tuple[float, bool]], zero: float, absent: Sequence[Window] = ()) -> list[Window]:
    """Return from when until when a server took writes; a reading counts until the next one, or until its absence.

    If none follows within LONGEST_GAP_SECONDS it counts for VALID_SECONDS: then more is not known.
    """
    found: list[Window] = []
    moments = sorted([*readings, *((begin, False) for begin, _ in absent), (math.inf, False)])
    for (at, takes_writes), (later, _) in pairwise(moments):
        until = later if later - at <= LONGEST_GAP_SECONDS else at + VALID_SECONDS
        begin, end = round(at - zero, 3), round(until - zero, 3)
        if takes_writes and end > 0:
            joined = found.pop()[0] if found and found[-1][1] == begin else max(begin, 0.0)
            found.append((joined, end))
    return found


def gaps(read_at: Sequence[float], absent: Sequence[Window], begin: float, end: float) -> list[Window]:
    """Return from when until when a server was neither read nor absent, in seconds after `begin`."""
    found, known = list[Window](), begin
    for since, until in sorted([*((at, at) for at in read_at), *absent, (end, end)]):
        if begin <= known < since <= end:
            found.append((round(known - begin, 3), round(since - begin, 3)))
        known = max(known, until)
    return found


# How long a person's failover may take: it waits for the replica to apply what it has received.
FAILOVER_SECONDS = 120


@dataclass
class StepChange:
    """What became of a failover in a step.

    `to` is the node that takes writes now, empty if no other one does; `replaced` are the nodes to be taken back.
    `refused` is why a failover was refused. `promoted` are the nodes that began to take writes under a manager, and
    `left` is what it left to do.
    """

    to: str = ""
    replaced: Sequence[str] = ()
    refused: str = ""
    done: TakenOver | None = None
    promoted_s: float | None = None
    promoted: list[tuple[float, str]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def errant_rows(nodes: Nodes, ledger: Ledger, change: StepChange, seconds: float) -> dict[str, list[tuple[int, int]]]:
    """Return, by replaced node, the rows that it has and the promoted one lacks, as ranges of ids.

    Each server has `seconds` to answer. Nodes that do not follow a source have none.
    """
    found = {}
    for name in change.replaced if nodes.follows_a_source else ():
        wait = f"the server of {name} to answer"
        clock.wait_until(lambda name=name: nodes.soon(nodes.answers, name), wait, seconds, every=0.1)  # type: ignore[misc]
        own, kept = (ledger.copy(nodes.server(each)) for each in (name, change.to))
        found[name] = ranges(set(own.ids) - set(kept.ids))
    return found


class ByLab:
    """Lets another node take over: the lab promotes the one that the drill names. Times are seconds of the load."""

    def __init__(self, nodes: Nodes, drill: Drill, tell: Tell, now: Callable[[], float]):
        self._nodes, self._drill, self._tell, self._now = nodes, drill, tell, now

    def wait(self, step: Step, broke: float) -> None:
        """Wait until the step has lasted its time; it began at `broke`."""
        clock.pause(broke + step.seconds - self._now())

    @property
    def has_undone(self) -> bool:
        """Whether a failover has ended the fault itself, as it restarts a source that is frozen."""
        return False

    def lead(self, step: Step) -> StepChange:
        """Let a node take over, or wait until one has, just before the fault is undone."""
        if not step.failover:
            return StepChange()
        began = self._now()
        if step.is_refused:
            try:
                done = self._nodes.take_over(step.promotes)
            except WouldLose as error:
                self._tell(f"  {self._now():5.1f} s: failover to {step.promotes} refused: {error.found}")
                return StepChange(refused=error.found)
        else:
            release_all(self._nodes.lab, step.promotes)
            done = self._nodes.take_over_after_loss(step.promotes)
        took = round(self._now() - began, 3)
        self._tell(f"  {self._now():5.1f} s: promoted {step.promotes}{f'; lost: {done.lacks}' if done.lacks else ''}")
        clock.pause(self._drill.after)
        return StepChange(step.promotes, done.replaced, done=done, promoted_s=took)

    def settle(self, step: Step, change: StepChange) -> StepChange:  # noqa: ARG002 - only a manager acts by itself
        """Return what became of it after the fault was undone, with the nodes that have to be taken back."""
        return change

    def restore(self, change: StepChange) -> StepChange:
        """Return the same with what else was to be done once the replaced nodes are back."""
        return change

    def resume(self) -> None:
        """Go on after all nodes are healthy again; LabError if that is not possible."""


class ByManager(ByLab):
    """A manager promotes a node, or does not. What it leaves to do is done by the lab once the fault has been undone.

    A manager without a program is a person: the lab does what that person would do.
    """

    def __init__(self, lab: Lab, nodes: Nodes, drill: Drill, tell: Tell, now: Callable[[], float], writes: TakesWrites):
        super().__init__(nodes, drill, tell, now)
        self._lab, self._writes = lab, writes
        self._kind = catalogue.manager(drill.manager)
        # Of a drill's file that names a manager, most settings are the defaults.
        settings = companion.asked(MANAGER, drill.manager, self._kind.settings, drill.manager_settings).settings
        self._after = dict(settings).get(AFTER, 0)
        self._source, self._broke, self._refused = nodes.written_at(), 0.0, ""
        self._done: TakenOver | None = None
        self._has_acted = self._freezes = False
        self.refuse_unmanaged()

    def refuse_unmanaged(self) -> None:
        """Raise LabError if the manager does not see the nodes as they are."""
        if self._kind.image:
            proof = managers.prove_view(self._lab, managers.running(self._lab))
            if not proof.ok:
                raise LabError(
                    f"{self._drill.manager} does not manage {self._lab.name}: {proof.found}",
                    "a manager that sees the source and each replica",
                    f"./lab status --lab {self._lab.name}",
                )

    @property
    def has_undone(self) -> bool:
        return self._has_acted and self._freezes

    def wait(self, step: Step, broke: float) -> None:
        self._freezes = any(spec.fault == "pause" for spec in step.fault_specs)
        self._broke, self._done, self._refused, self._has_acted = broke, None, "", False
        self._watch(step, broke + step.seconds)

    def lead(self, step: Step) -> StepChange:
        if step.failover:
            self._watch(step, self._broke + self._after + self._kind.within, lambda: bool(self._promoted()))
        promoted = self._promoted()
        if not promoted:
            said = f"{self._drill.manager} let no node take over"
            self._tell(f"  {self._now():5.1f} s: {self._refused or said}")
            return StepChange(refused=self._refused or said if step.is_refused else "")
        at, node = promoted[0]
        self._tell(f"  {at:5.1f} s: {self._drill.manager} let {node} take over")
        clock.pause(self._drill.after)
        return StepChange(promoted_s=round(at - self._broke, 3), promoted=promoted)

    def settle(self, step: Step, change: StepChange) -> StepChange:
        self._watch(step, self._now() + self._kind.settles)
        if self._kind.image:
            managers.running(self._lab).quiet()
        promoted = self._promoted()
        if not promoted:
            self._refuse_no_source()
            return change
        # A node that was promoted may refuse writes again, as one that hears another one again.
        now = self._writes.now()
        to = next((node for _, node in reversed(promoted) if node in now), (*now, promoted[-1][1])[0])
        if self._done:
            done = self._done
            left = [f"./lab failover {to}", *(f"./lab rejoin {name}" for name in done.replaced)]
        else:
            done, left = self._nodes.adopt(to, self._source)
        self._source = to
        self._tell(f"  {self._now():5.1f} s: left to do: {'; '.join(left) or 'nothing'}")
        return StepChange(to, done.replaced, "", done, change.promoted_s, promoted, left)

    def restore(self, change: StepChange) -> StepChange:
        """Let commits wait for replicas again, where neither the servers nor the manager do."""
        left = self._nodes.resume_waiting()
        if left:
            self._tell(f"  {self._now():5.1f} s: left to do: {'; '.join(left)}")
        return replace(change, left=[*change.left, *left])

    def _refuse_no_source(self) -> None:
        """Raise LabError if no node took over and the old source refuses writes: waiting would change nothing."""
        asked: dict[str, str] = {}
        if self._kind.image:
            # A server that does not answer yet may come back.
            with suppress(LabError):
                asked = self._lab.node(self._source).server().settings("read_only")
        if asked == {"read_only": "ON"}:
            raise LabError(
                f"{self._drill.manager} let no node take over, and {self._source} refuses writes",
                "a node that takes writes",
                f"./lab status --lab {self._lab.name}",
            )

    def resume(self) -> None:
        """Let the manager act again: what makes a server a source or a replica is its to set from now on."""
        if self._kind.image:
            for server in (self._lab.node(name).server() for name in self._nodes.names):
                dialect, own = server.dialect, requests_made.settings_made(server.address)
                roles = {f"{role}_enabled" for role in (dialect.semisync_source, dialect.semisync_replica)}
                for name in own.keys() & {"read_only", "super_read_only", *roles}:
                    requests_made.forget_setting(server.address, name)
            managers.running(self._lab).manage()
            self.refuse_unmanaged()

    def _promoted(self) -> list[tuple[float, str]]:
        return [one for one in self._writes.begun() if one[0] > self._broke]

    def _watch(self, step: Step, end: float, is_done: Callable[[], bool] = lambda: False) -> None:
        """Wait until a moment, or until something is done; a person acts meanwhile."""

        def over() -> bool:
            self._act(step)
            return is_done() or self._now() >= end

        clock.wait_until(over, "the end of a step", max(end - self._now(), 0) + FAILOVER_SECONDS, every=0.1)

    def _act(self, step: Step) -> None:
        """Do what a person does who has seen no source for some time."""
        if self._kind.image or self._has_acted or self._writes.silent_s(self._source) < self._after:
            return
        self._has_acted = True
        node = step.promotes or self._most_advanced()
        try:
            if step.is_refused:
                self._done = self._nodes.take_over(node)
            else:
                release_all(self._lab, node)
                self._done = self._nodes.take_over_after_loss(node)
            # A server is asked some times a second whether it takes writes.
            clock.wait_until(self._promoted, f"{node} to be seen taking writes", SEEN_SECONDS, every=0.1)
        except LabError as error:
            self._refused = f"failover to {node} refused: {error.found}"

    def _most_advanced(self) -> str:
        """Return the replica that has received the most, of those that answer."""
        with suppress(ValueError):
            found = {name: each.received or 0 for name, each in self._nodes.positions().items() if each.replicates}
            return max(found, key=lambda name: found[name])
        raise LabError("no replica answers", "a replica that can take over", f"./lab status --lab {self._lab.name}")
