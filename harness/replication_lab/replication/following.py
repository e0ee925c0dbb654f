"""A source and its replicas in the state of an experiment's case: arranged, proved over a load, and restored."""

from collections.abc import Iterator
from contextlib import contextmanager

from replication_lab import replication
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.measuring import Watch
from replication_lab.probes import semisync as semisync_probe
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync
from replication_lab.world.mysql.server import Server


@contextmanager
def arranged(lab: Lab, case: Case) -> Iterator[Watch]:
    """Set the replication and the wait point of a case; yield the watch that proves them over a load.

    The replicas must replicate by the `path` of the case: across the proxy, or directly from the source.
    """
    source = lab.node(lab.topology.source.name).server()
    replicas = [lab.node(node.name).server() for node in lab.topology.replicas]
    wanted = case.state.replication or lab.topology.replication
    # Where the case leaves it open, the server's own: it must not change during the load either. A server without the
    # choice has only one.
    own = SemiSync(source).status().wait_point
    wait_point = own and (case.state.wait_point or own)
    with restored(lab):
        if replication.kind_of(lab.topology).acknowledges:
            SemiSync(source).set(False)
        for replica, followed_server in followed(lab):
            if wanted == "none":
                replica.stop()
            else:
                replica.start()
                replica.wait_for(BinaryLog(followed_server).position())
        if wanted == "semisync":
            SemiSync(source).set(True, wait_point, timeout_ms=10_000)
            semisync_probe.wait_until_acknowledged(source)
        trip = case.added_ms if wanted == "semisync" else 0
        yield semisync_probe.SemiSyncWatch(
            source,
            replicas,
            wanted,
            wait_point,
            case.settings.get("path", "proxy"),
            case.state.clients,
            round_trip_ms=trip,
        )


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
    if replication.kind_of(lab.topology).acknowledges:
        SemiSync(lab.node(lab.topology.source.name).server()).set(False)
    for replica, source_of_it in followed(lab):
        # Also where it should be running: a replica that was stopped by other means must not spoil the next case.
        replica.start()
        replica.wait_for(BinaryLog(source_of_it).position())


def followed(lab: Lab) -> Iterator[tuple[Replica, Server]]:
    """Yield each replica with the server that it follows; a relay comes before its own replica, as the links do."""
    for link in lab.topology.links:
        yield Replica(lab.node(link.target).server()), lab.node(link.source).server()
