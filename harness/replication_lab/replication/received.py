"""What replicas have received and not applied, kept beside a lab's state until it is applied or discarded.

MariaDB deletes a relay log that was not applied if a thread is started while both are stopped, as at each start of
the server. Without these files, nothing would show afterwards that its transactions are missing.
"""

from contextlib import suppress
from pathlib import Path

import msgspec

from replication_lab import replication
from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.world import files, lab_files, lock
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql import gtid
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Backlog, Replica

# How long to wait for the answer of a server that is about to be stopped: it may be frozen.
ANSWER_SECONDS = 2


def _file(lab: Lab) -> Path:
    return lab_files.file_of(lab.name, lab_files.RECEIVED)


def _kept(lab: Lab) -> dict[str, str]:
    text = files.read_own(_file(lab))
    with as_lab_error(
        msgspec.DecodeError,
        f"{_file(lab)} cannot be read, so what was received and not applied is not known",
        "the file as the lab wrote it",
        f"compare the nodes, then delete {_file(lab)}",
    ):
        return msgspec.json.decode(text, type=dict[str, str]) if text else {}


def gtids(lab: Lab, node: str) -> str:
    """Return the GTIDs that a node has received, also those that its relay log no longer has."""
    kept, received = _kept(lab).get(node, ""), Replica(lab.node(node).server()).received()
    return ",".join(dict.fromkeys(filter(None, (kept, received))))


def backlog(lab: Lab, node: str) -> Backlog | None:
    """Return what a node has received and not applied, and record it; None if there is nothing."""
    return _noted(lab, node, Replica(lab.node(node).server()).backlog(_kept(lab).get(node, "")))


def settled(lab: Lab, node: str) -> Backlog | None:
    """Do the same as `backlog`, once the node makes no more progress."""
    return _noted(lab, node, Replica(lab.node(node).server()).settled(_kept(lab).get(node, "")))


def _noted(lab: Lab, node: str, left: Backlog | None) -> Backlog | None:
    if left:
        _keep(lab, node)
    return left


def _keep(lab: Lab, node: str) -> None:
    # Several nodes may be stopped at once.
    with lock.held(f"received-{lab.name}"):
        files.write_whole(_file(lab), msgspec.json.encode(_kept(lab) | {node: gtids(lab, node)}))


def comes_again(lab: Lab, source: str, node: str) -> bool:
    """Return whether a source answers and has all that a replica has received, so that it can send it again."""
    if not lab.node(source).answers_soon():
        return False
    server = lab.node(source).server()
    return not server.dialect.gtids or not gtid.beyond(gtids(lab, node), BinaryLog(server).gtids())


def keep_of_ending(lab: Lab, nodes: list[str]) -> None:
    """Record what nodes that are about to be stopped have not applied; leave out a node that does not answer."""
    can_fail_over = replication.kind_of(lab.topology).follows_a_source and not isinstance(lab, AttachedLab)
    for node in nodes if can_fail_over else ():
        with suppress(LabError):
            if Replica(lab.node(node).server().within(ANSWER_SECONDS)).backlog():
                _keep(lab, node)


def forget(lab: Lab, node: str) -> None:
    """Delete the record of what a node had received: it was applied, or discarded on request."""
    with lock.held(f"received-{lab.name}"):
        rest = {name: each for name, each in _kept(lab).items() if name != node}
        if rest:
            files.write_whole(_file(lab), msgspec.json.encode(rest))
        else:
            _file(lab).unlink(missing_ok=True)
