"""A question on a chain or on a replicated disk is unknown if its replication stops during a load."""

import secrets
from contextlib import contextmanager

import pytest
from replication_lab import experiments
from replication_lab.lab import up
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.question.question import Question
from replication_lab.world import catalogue, signals
from replication_lab.world.docker import images, project
from replication_lab.world.machines import drbd
from replication_lab.world.mysql.replica import APPLIER, Replica

from tests.lab.sabotage import judgement_of

EFFECT = "throughput:clients=4"


def asked(topology, **settings):
    return experiments.asked(Question(topologies=[topology], vary={"clients": ["1", "4"]}, settings=settings))


@contextmanager
def started(topology, **environment):
    """Start a lab as a question gets it, with the load container and no toxics."""
    found = catalogue.topology(topology)
    images.ensure(up.image_names("mariadb", load=True, topology=found))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        request = LabRequest(
            found, "mariadb", f"test-{secrets.token_hex(4)}", load=True, launcher=up.launcher_of(found)
        )
        lab = project.start(request)
    try:
        yield lab
    finally:
        with signals.signals_held():
            lab.down()


def test_a_relay_whose_applier_somebody_stops_is_unknown(docker, tmp_path):
    """The sabotage: the source commits as before, but the leaf gets nothing."""
    with started("chain") as lab:
        judged, doubts = judgement_of(
            asked("chain", rtt="10ms"),
            EFFECT,
            lab,
            lambda lab: Replica(lab.node("relay").server()).stop_thread(APPLIER),
            tmp_path,
        )

    assert judged.verdict is Verdict.UNKNOWN
    assert "relay replicates by the path that the case sets" in doubts and "SQL thread stopped" in doubts
    assert "leaf replicates" not in doubts


@pytest.mark.long
def test_a_replicated_disk_that_somebody_disconnects_is_unknown(docker, tmp_path):
    """The sabotage: from then on a commit waits for no other node, and is fast."""
    with started("drbd", LAB_DISK_SIZE="256M") as lab:
        judged, doubts = judgement_of(
            asked("drbd", rtt="10ms"), EFFECT, lab, lambda lab: drbd.Peer(lab, "node2").tell("disconnect"), tmp_path
        )
        mended = drbd.Peer(lab, "node1").status()

    assert judged.verdict is Verdict.UNKNOWN
    assert "the peer is connected" in doubts
    # The next case begins with the same data on both disks.
    assert mended.whole
