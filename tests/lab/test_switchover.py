"""A planned switchover on real servers: nothing is lost, the way back works, and a refused one leaves the old state."""

from contextlib import closing

import pytest
from replication_lab import replication
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.probes.commit_latency import TABLE
from replication_lab.replication import failover, switchover
from replication_lab.world import signals
from replication_lab.world.docker import images
from replication_lab.world.mysql.replica import APPLIER, Replica
from replication_lab.world.mysql.semisync import SemiSync

OTHERS = [pytest.param(("async", engine), marks=pytest.mark.long) for engine in ("mysql-8.0", "mysql-5.7")]


@pytest.fixture
def lab(new_lab, request):
    """Yield a lab whose links are short."""
    topology, engine = request.param
    images.ensure(up.image_names(engine))
    lab = new_lab(topology, engine, toxics={"source-replica": "lan"} if topology == "async" else None)
    yield lab
    with signals.signals_held():
        lab.down()


def write(lab, node, rows):
    """Insert one row a transaction; the table exists since the lab was proved."""
    server = lab.node(node).server().as_application()
    with closing(server):
        server.execute(*[f"INSERT INTO {TABLE} (at) VALUES (0)"] * rows)


def counts(lab):
    replication.of(lab).wait_until_caught_up()
    return {
        node.name: lab.node(node.name).server().value(f"SELECT COUNT(*) FROM {TABLE}") for node in lab.topology.nodes
    }


def state_of(lab):
    names = [node.name for node in lab.topology.nodes]
    return failover.following(lab), {name: lab.node(name).server().settings("read_only") for name in names}


@pytest.mark.parametrize("lab", [("async", "mariadb"), *OTHERS], indirect=True)
def test_a_replica_and_its_source_change_places_and_back(lab):
    """Rows flow the other way meanwhile, the old source refuses an application's writes, and no row is lost."""
    before, had = state_of(lab), counts(lab)["source"]
    write(lab, "source", 5)
    there = replication.of(lab).switch_over("replica")
    write(lab, "replica", 3)
    with pytest.raises(LabError, match="read-only"):
        write(lab, "source", 1)
    kind = replication.of(lab)
    back = kind.switch_over("source")
    write(lab, "source", 2)

    assert (there.old, there.source, there.repointed) == ("source", "replica", ["source"])
    assert (back.old, back.source, back.repointed) == ("replica", "source", ["replica"])
    assert state_of(lab) == before
    assert set(counts(lab).values()) == {had + 10}


@pytest.mark.parametrize("lab", [("async", "mariadb")], indirect=True)
def test_a_switchover_that_fails_or_is_refused_leaves_the_old_state(lab, monkeypatch):
    """Sabotage: the last step fails; then the applier is stopped."""
    before = state_of(lab)
    write(lab, "source", 5)

    def fails(*_):
        raise LabError("sabotaged", "a step that succeeds")

    with monkeypatch.context() as patched:
        patched.setattr(switchover, "_accept_writes", fails)
        with pytest.raises(LabError, match="sabotaged"):
            switchover.switchover(lab, "replica")
    assert state_of(lab) == before
    write(lab, "source", 2)

    Replica(lab.node("replica").server()).stop_thread(APPLIER)
    write(lab, "source", 2)
    with pytest.raises(LabError, match="the applier is stopped"):
        switchover.switchover(lab, "replica")
    Replica(lab.node("replica").server()).start_thread(APPLIER)

    assert state_of(lab) == before
    assert len(set(counts(lab).values())) == 1


@pytest.mark.long
@pytest.mark.parametrize("lab", [("semisync-3", "mysql-8.0")], indirect=True)
def test_a_source_that_waits_for_two_replicas_hands_that_over(lab):
    """With a wait count of 2 the new source must have both before it accepts a write, or the write would hang."""
    SemiSync(lab.node("source").server()).set(True, "AFTER_SYNC", 30_000, 2)
    done = replication.of(lab).switch_over("replica2")
    new = SemiSync(lab.node("replica2").server())
    write(lab, "replica2", 3)
    found = new.status()

    assert sorted(done.repointed) == ["replica1", "source"]
    assert (found.active, found.acknowledgements, found.timeout_ms, found.unacknowledged) == (True, 2, 30_000, 0)
    assert found.replicas == 2 and found.acknowledged >= 1
