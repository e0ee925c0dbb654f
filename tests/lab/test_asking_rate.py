"""A load with a rate begins its transactions on time, and no stall of a server is hidden by waiting clients."""

import time

import pytest
from replication_lab.experiments.question.experiment import PACED_INSERTS
from replication_lab.model.question.load import KEPT
from replication_lab.workloads.inserts import Inserts
from replication_lab.workloads.timed_script import TimedScript

from tests.lab.sabotage import Sabotaged

# Far below what a busy machine can do.
RATE, SECONDS, CLIENTS = 40.0, 3, 4
STALLED_MS = 1000


@pytest.fixture
def inserts(loaded):
    """Return inserts at a rate, ready to run."""
    load = TimedScript(PACED_INSERTS, clients=CLIENTS, seconds=SECONDS, rate=RATE)
    load.prepare(loaded)
    return load


def stall(lab):
    """Stop the source for a second."""
    node = lab.node("source")
    node.pause()
    time.sleep(STALLED_MS / 1000)
    node.unpause()


def test_a_load_begins_as_many_transactions_as_its_rate_asks_for(loaded, inserts):
    """No more of them, and each is a row; the last few are left out if all clients are late at the end."""
    source = loaded.node("source").server()
    before = source.value("SELECT COUNT(*) FROM lab.foo")

    found = inserts.run(loaded, 7)

    assert [proof for proof in found.proofs if not proof.ok] == []
    assert RATE * SECONDS * KEPT <= found.commits <= RATE * SECONDS
    assert len(found.latencies_ms) == found.commits == source.value("SELECT COUNT(*) FROM lab.foo") - before


def test_a_stall_shows_in_each_transaction_that_should_have_begun_meanwhile(loaded, inserts):
    """The sabotage: without a rate a client waits once, and its few slow commits vanish among many fast ones."""
    found = Sabotaged(inserts, stall).run(loaded, 7)
    slow = [ms for ms in found.latencies_ms if ms > STALLED_MS / 4]

    assert found.figures["latency_p99_ms"] > STALLED_MS * 0.9
    # Three quarters of the stall, during which a transaction should have begun each 25 ms.
    assert len(slow) > RATE * STALLED_MS / 1000 * 0.6
    assert found.fastest_commit_ms < STALLED_MS / 10


@pytest.mark.long
def test_without_a_rate_the_same_stall_is_seen_once_by_each_client(loaded):
    """What a rate is for."""
    closed = Inserts(clients=CLIENTS, seconds=SECONDS)
    closed.prepare(loaded)

    found = Sabotaged(closed, stall).run(loaded, 7)

    assert len([ms for ms in found.latencies_ms if ms > STALLED_MS / 4]) <= CLIENTS
    assert found.figures["latency_p99_ms"] < STALLED_MS / 4


def test_a_rate_that_cannot_be_kept_is_no_figure(loaded, inserts):
    """The sabotage: a client that waits for the source's lock cannot begin in time."""

    def lock(lab):
        with lab.node("source").server().session() as session:
            session.cursor().execute("FLUSH TABLES WITH READ LOCK")
            time.sleep(SECONDS)

    found = Sabotaged(inserts, lock).run(loaded, 7)
    (proof,) = found.proofs

    assert not proof.ok and found.figures["rate_achieved"] < RATE / 2
    assert proof.doubt.startswith("the load kept 40/s: expected at least 38/s begun, found ")
