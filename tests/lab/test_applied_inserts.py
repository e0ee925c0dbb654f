"""Inserts that a replica applies afterwards, on a real source and its replica."""

import secrets

import pytest
from replication_lab.lab import up
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.workloads.replicated_inserts import AppliedInserts
from replication_lab.world import catalogue, signals
from replication_lab.world.docker import images, project
from replication_lab.world.mysql.replica import Replica

pytestmark = pytest.mark.long
LOAD = AppliedInserts(clients=2, rows=100)


@pytest.fixture(scope="module")
def lab(docker):
    """Yield a source and its replica that nothing has proved, with the load's container."""
    topology = catalogue.topology("async")
    request = LabRequest(topology, "mariadb", f"test-{secrets.token_hex(4)}", load=True, keep=False)
    images.ensure(up.image_names(request.engine, request.load, topology))
    started = project.start(request)
    LOAD.prepare(started)
    yield started
    with signals.signals_held():
        started.down()


def test_the_replica_applies_after_the_last_insert(lab):
    """Both rates are known, and the replica had applied no row before."""
    found = LOAD.run(lab, seed=1)

    assert found.commits == 100 and all(rate > 0 for rate in found.figures.values())
    assert [proof.doubt for proof in found.proofs if not proof.ok] == []


def test_an_applier_that_does_not_stop_is_noticed(lab, monkeypatch):
    """It has applied the rows before the time is taken, so that the rate would be far too high."""
    monkeypatch.setattr(Replica, "stop_thread", lambda *_: None)

    (proof,) = LOAD.run(lab, seed=2).proofs

    assert not proof.ok and "applied too soon" in str(proof.doubt)
