"""What several experiments arrange and prove about a source, its replicas, and the links between."""

from collections.abc import Iterator
from contextlib import contextmanager

from replication_lab.model.proof import Proof
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync
from replication_lab.world.mysql.server import Server


@contextmanager
def restored(lab: Lab) -> Iterator[None]:
    """Switch semi-sync off after the block, where the servers have it, and let each replica run and catch up.

    After an interruption no case follows, and the lab is removed: nothing is waited for.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException:
        _restore(lab)
        raise
    else:
        _restore(lab)


def _restore(lab: Lab) -> None:
    if lab.topology.replication == "semisync":
        SemiSync(lab.node(lab.topology.source.name).server()).set(False)
    for replica, source_of_it in followed(lab):
        # Also where it should be running: a replica that was stopped by other means must not spoil the next case.
        replica.start()
        replica.wait_for(BinaryLog(source_of_it).position())


def followed(lab: Lab) -> Iterator[tuple[Replica, Server]]:
    """Yield each replica with the server that it follows; a relay comes before its own replica, as the links do."""
    for link in lab.topology.links:
        yield Replica(lab.node(link.target).server()), lab.node(link.source).server()


def bare_links(lab: Lab) -> Proof:
    """Prove that no link has a toxic."""
    slowed = [link.name for link in lab.topology.links if lab.link(link.name).toxics()]
    return Proof(
        what="the links have no toxics", expected="no toxic", found=", ".join(slowed) or "no toxic", ok=not slowed
    )
