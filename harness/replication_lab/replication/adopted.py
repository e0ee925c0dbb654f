"""What a failover manager left to do after it promoted a node, found and done: the work of a person."""

from replication_lab.model.lab.succession import TakenOver
from replication_lab.replication import failover, received
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.replica import Replica


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
            continue
        left.append(f"{name} replicates from {following.get(name) or 'no node'}, not from {new}")
        if following.get(name):
            failover.repoint(lab, name, done)
        if name not in (*done.repointed, *done.replaced):
            done.replaced.append(name)
    if done.repointed:
        failover.wait_for_replicas(lab, server)
    return done, left
