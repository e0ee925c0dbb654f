"""A planned switchover, in which nothing is lost; and adoption: the rest of a failover that a manager has made.

The source refuses writes first, and the new one accepts them last, when it has replicas again. Until then nothing was
written that only one of them has, so whatever fails is undone, and the old source serves again.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

from replication_lab import replication
from replication_lab.model.core.errors import LabError, WouldLose
from replication_lab.model.lab.manager import refuse_unable_manager
from replication_lab.model.lab.succession import TakenOver
from replication_lab.replication import failover, received
from replication_lab.replication.fence import ROLE, Fence
from replication_lab.world import at_once, clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.manager import RunningManager
from replication_lab.world.mysql import gtid
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica, ReplicaStatus
from replication_lab.world.mysql.semisync import SemiSync, SemiSyncStatus
from replication_lab.world.mysql.server import Server

# How long replicas may take to apply what the source has: while clients write, then while nobody writes.
CATCH_UP_SECONDS, LAST_SECONDS, CONNECT_SECONDS = 60, 30, 30
# How long a manager's own command may take.
MANAGER_SECONDS = 180


def switchover(lab: Lab, node: str) -> TakenOver:
    """Make a replica the source and the source a replica of it; `seconds` is how long no node accepted writes.

    Raise LabError if that is not possible; then everything is as it was before.
    """
    old, others = _refuse_unfit(lab, node)
    new, followers = lab.node(node).server(), [node, *others]
    _catch_up(lab, old, followers, CATCH_UP_SECONDS)
    with ExitStack() as undone:
        began = clock.timer()
        _fence(lab, old, undone)
        _catch_up(lab, old, followers, LAST_SECONDS)
        waiting = SemiSync(lab.node(old).server()).status()
        _promote(lab, new, old, undone)
        _kept_role(lab, old, undone)
        server = lab.node(old).server()
        replica, semisync = Replica(server), SemiSync(server)
        _undo(undone, lambda: semisync.set(waiting.enabled))
        _undo(undone, lambda: replica.stop_following(lose=True))
        replica.resume()
        failover.follow_as_replica(lab, server, new.name)
        for name in others:
            _repoint(lab, name, old, new.name, undone)
        _accept_writes(lab, new, waiting, undone)
        # From here on the new source may have writes of its own.
        undone.pop_all()
    return TakenOver(old, node, repointed=[old, *others], lost=0, seconds=clock.timer() - began)


def by_manager(lab: Lab, manager: RunningManager, node: str) -> TakenOver:
    """Let the failover manager of a lab change the source its own way; `seconds` is how long no node accepted writes.

    Raise LabError before anything changes if it has no such way, or a node is not ready; also if its own way fails.
    """
    refuse_unable_manager(manager.name, manager.kind)
    old, others = _refuse_unfit(lab, node)
    ended = threading.Event()

    def silence() -> float:
        """Return for how many seconds neither the old source nor the new one accepted writes."""
        _until(lambda: ended.is_set() or not failover.takes_writes(lab, old), f"{old} to refuse writes")
        began = clock.timer()
        _until(lambda: ended.is_set() or failover.takes_writes(lab, node), f"{node} to accept writes")
        return clock.timer() - began

    with ThreadPoolExecutor(1) as pool:
        seconds = pool.submit(silence)
        try:
            manager.switch(node)
        finally:
            ended.set()
    if not failover.takes_writes(lab, node):
        raise LabError(f"{manager.name} did not let {node} accept writes", "a planned change", "./lab status")
    following = failover.sources(lab)
    waits = replication.of(lab).acknowledges
    for name in (node, old):
        # As the manager leaves them: also after a restart.
        failover.set_role(lab, lab.node(name).server(), source=name == node, waits=waits and name == node)
    behind = [name for name in (old, *others) if following.get(name) != node]
    return TakenOver(
        *(old, node),
        repointed=[name for name in (old, *others) if name not in behind],
        left={name: f"it follows {following.get(name, 'no node')}" for name in behind},
        seconds=seconds.result(),
    )


def _until(is_done: Callable[[], bool], what: str) -> None:
    clock.wait_until(is_done, what, MANAGER_SECONDS, every=0.02)


# --- before anything is changed ---------------------------------------------------------------------------------------


def _refuse_unfit(lab: Lab, node: str) -> tuple[str, list[str]]:
    """Return the source and its other replicas; LabError if one of the nodes is not ready. Change nothing."""
    failover.refuse_unable(lab, "switchover")
    lab.topology.node(node)
    names = [each.name for each in lab.topology.nodes]
    if silent := [name for name in names if name not in failover.awake(lab)]:
        raise LabError(f"{', '.join(silent)} does not answer", "every node", f"./lab failover {node}, after a loss")
    following = failover.sources(lab)
    old, others = failover.source_and_others(node, following)
    if old in following:
        raise LabError(
            f"{node} replicates from {old}, which is a replica of {following[old]}",
            "a replica of the source that clients write to",
            f"./lab switchover {old}",
        )
    if not failover.takes_writes(lab, old):
        raise LabError(f"{old} accepts no writes", "a source that clients write to", "./lab status")
    for name in (node, *others):
        _refuse_unready(lab, name)
    return old, others


def _refuse_unready(lab: Lab, name: str) -> None:
    """Raise LabError for a replica that does not replicate, or only with a delay."""
    replica = Replica(lab.node(name).server())
    state, left = replica.status(), received.backlog(lab, name)
    if state is None or not state.healthy:
        why = left or (state.error or state.threads if state else "it has no source")
        remedy = left.remedy(name) if left else ""
        raise WouldLose(f"{name} does not replicate: {why}", "a replica whose threads run", remedy or "./lab status")
    if state.delay_seconds:
        raise WouldLose(
            f"{name} is delayed by {state.delay_seconds:d} s: no node would accept writes meanwhile",
            "a replica without a delay",
            f"./lab sql {name}",
        )


def _catch_up(lab: Lab, source: str, names: list[str], seconds: int) -> None:
    """Wait until the replicas have applied all that the source has now."""
    position = BinaryLog(lab.node(source).server()).position()
    at_once.of_each(lambda name: Replica(lab.node(name).server()).wait_for(position, seconds), names)


# --- what is undone if a later step fails -----------------------------------------------------------------------------


def _undo(undone: ExitStack, act: Callable[[], object]) -> None:
    """Have an act undo a step; the others are done even if it fails."""

    def tried() -> None:
        with suppress(LabError):
            act()

    undone.callback(tried)


def _fence(lab: Lab, old: str, undone: ExitStack) -> None:
    """Make the source refuse writes. Unlike a failover it never kills a server whose commits wait."""
    fence = Fence(lab, old)
    _undo(undone, fence.undo)
    if fence.close():
        raise WouldLose(
            f"{old} did not become read-only: commits or locks wait there",
            "a source whose transactions end within seconds",
            f'./lab sql {old} -e "SHOW PROCESSLIST"',
        )


def _kept_role(lab: Lab, name: str, undone: ExitStack) -> None:
    role = lab.node(name).text_of(ROLE).encode()
    _undo(undone, lambda: lab.node(name).put(ROLE, role))


def _promote(lab: Lab, new: Server, old: str, undone: ExitStack) -> None:
    """Let the new source follow no node any more; it still refuses writes."""
    _kept_role(lab, new.name, undone)
    replica = Replica(new)
    _undo(undone, lambda: replica.follow(*failover.dialled(lab, old, new.name)))
    replica.end_replication()
    if missing := failover.beyond(BinaryLog(lab.node(old).server()).gtids(), new):
        raise WouldLose(f"{new.name} lacks {gtid.words(missing)}", "a replica that has everything", "./lab status")
    replica.forget()
    received.forget(lab, new.name)


def _repoint(lab: Lab, name: str, old: str, source: str, undone: ExitStack) -> None:
    """Let another replica of the old source follow the new one."""
    replica = Replica(lab.node(name).server())

    def back() -> None:
        if replica.status():
            replica.stop_following(lose=True)
        replica.follow(*failover.dialled(lab, old, name))

    _undo(undone, back)
    replica.stop_following()
    replica.follow(*failover.dialled(lab, source, name))


def _accept_writes(lab: Lab, new: Server, waiting: SemiSyncStatus, undone: ExitStack) -> None:
    """Let the new source accept writes; with semi-sync not before as many replicas acknowledge as the old one asked."""
    if waiting.enabled:
        semisync = SemiSync(new)
        _undo(undone, lambda: semisync.set(False))
        semisync.set(True, waiting.wait_point, waiting.timeout_ms, waiting.acknowledgements)
        clock.wait_until(
            lambda: semisync.status().replicas >= (waiting.acknowledgements or 1),
            f"{waiting.acknowledgements or 1} replica(s) that acknowledge",
            CONNECT_SECONDS,
        )
    failover.set_role(lab, new, source=True, waits=waiting.enabled)
    new.set_global(read_only=0)


def adopt(lab: Lab, new: str, old: str) -> tuple[TakenOver, list[str]]:
    """Let every other node follow the node that a manager promoted, or be taken back.

    Return what was done, and in words what the manager had left to do. All nodes have to answer.
    """
    others = [node.name for node in lab.topology.nodes if node.name != new]
    for name in (new, *others):
        clock.wait_until(lab.node(name).answers, f"{name} to answer", failover.ANSWER_SECONDS, every=0.1)
    following, server = failover.following(lab), lab.node(new).server()
    left, done = [], TakenOver(old, new)
    if following.get(new):
        left.append(f"{new} takes writes and is still a replica of {following[new]}")
        Replica(server).end_replication(lose=True)
        Replica(server).forget()
    failover.set_role(lab, server, source=True)
    received.forget(lab, new)
    for name in others:
        if failover.takes_writes(lab, name):
            left.append(f"{name} takes writes, too")
            lab.node(name).server().set_global(read_only=1)
    # First those that follow a node: they can only be taken back while that one is no replica.
    for name in sorted(others, key=lambda each: not following.get(each)):
        if following.get(name) == new:
            replica = Replica(lab.node(name).server())
            status = _decided(name, replica)
            if status and (why := status.ended or _ahead(replica.server, server)):
                left.append(f"{name} cannot replicate from {new}: {why}")
                replica.stop_following(lose=True)
                done.replaced.append(name)
            elif status and not status.applying:
                left.append(f"{name} has stopped replicating from {new}, without an error")
                replica.start()
            continue
        left.append(f"{name} replicates from {following.get(name) or 'no node'}, not from {new}")
        if following.get(name):
            failover.repoint(lab, name, done)
        if name not in (*done.repointed, *done.replaced):
            done.replaced.append(name)
    if done.repointed:
        failover.wait_for_replicas(lab, server)
    return done, left


def _ahead(server: Server, source: Server) -> str:
    """Return in words how many transactions a replica has that its source lacks; empty for none, or without GTIDs.

    It replicates until the source's own transactions have higher numbers, and then ends with an error.
    """
    found = failover.beyond(BinaryLog(server).gtids(), source) if server.dialect.gtids else {}
    return f"it has {gtid.words(found)}, which {source.name} lacks" if found else ""


def _decided(name: str, replica: Replica) -> ReplicaStatus | None:
    """Return how a replica replicates, once it does, or does not try: as one that is ahead of its source."""

    def is_decided() -> bool:
        status = replica.status()
        return status is None or status.healthy or bool(status.ended) or not status.applying

    # One that still tries is waited for later, as each replica is.
    with suppress(LabError):
        clock.wait_until(is_decided, f"{name} to replicate", failover.ANSWER_SECONDS, every=0.1)
    return replica.status()
