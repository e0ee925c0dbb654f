"""Does replica_count measure as many replicas as a case says, and doubt a measurement in which there were others?"""

from contextlib import contextmanager

import pytest
from replication_lab import experiments
from replication_lab.experiments import replica_count
from replication_lab.world import catalogue
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync

from tests.fakes.lab import FakeLab

KNOWN = experiments.load("replica_count")
CASES = {case.name: case for case in KNOWN.cases}


@pytest.fixture
def arranged(fake_world):
    """Arrange a case on a lab of the fake world; gives the lab and the watch."""

    @contextmanager
    def on(case, engine="mysql-8.0"):
        lab = FakeLab(fake_world(), catalogue.topology(KNOWN.topology), engine)
        with replica_count.arrange(lab, CASES[case]) as watch:
            yield lab, watch

    return on


def doubts(watch):
    return [proof.doubt for proof in watch.proofs(0) if proof.doubt]


@pytest.mark.parametrize("engine", ["mariadb", "mysql-8.0"])
@pytest.mark.parametrize("case", [name for name in CASES if "-for-" not in name])
def test_as_many_replicas_are_connected_as_the_case_says(arranged, engine, case):
    """The first ones; all others are stopped, and start again at its end."""
    count = CASES[case].settings["replicas"]
    with arranged(case, engine) as (lab, watch):
        running = [node.name for node in lab.topology.replicas if lab.node(node.name).server().runs]

        assert running == [node.name for node in lab.topology.replicas][:count]
        assert doubts(watch) == []
    assert all(lab.node(node.name).server().runs for node in lab.topology.replicas)


@pytest.mark.parametrize(("of", "wanted"), [(5, 5), (10, 10), (20, 5), (20, 10), (20, 20)])
def test_as_many_replicas_acknowledge_as_the_case_says(arranged, of, wanted):
    """The next case waits for one again."""
    with arranged(f"semisync-{of}-for-{wanted}") as (lab, watch):
        assert SemiSync(lab.node("source").server()).status().acknowledgements == wanted
        assert doubts(watch) == []
    with replica_count.arrange(lab, CASES["semisync-20"]):
        assert SemiSync(lab.node("source").server()).status().acknowledgements == 1


def test_one_replica_too_many_is_a_doubt(arranged):
    """Sabotage: somebody starts a replica that the case has stopped."""
    with arranged("async-5") as (lab, watch):
        Replica(lab.node("replica6").server()).start()

        assert any("expected 5, found 6" in doubt for doubt in doubts(watch))
        assert any("replica6 is not connected" in doubt for doubt in doubts(watch))


def test_a_replica_that_left_is_a_doubt(arranged):
    """Sabotage: one of the case's own replicas stops."""
    with arranged("async-5") as (lab, watch):
        Replica(lab.node("replica5").server()).stop()

        assert any("expected 5, found 4" in doubt for doubt in doubts(watch))


def test_another_number_of_acknowledgements_is_a_doubt(arranged):
    """Sabotage: the source waits for fewer replicas than the case says."""
    with arranged("semisync-20-for-20") as (lab, watch):
        SemiSync(lab.node("source").server()).set(True, acknowledgements=2)

        assert any("expected 20, found 2" in doubt for doubt in doubts(watch))


def test_a_server_that_waits_for_one_is_not_asked_for_more(arranged, refused):
    """MariaDB's cases with more are left out; a direct request is refused."""
    with arranged("async-1", "mariadb") as (lab, _):
        source = lab.node("source").server()

        assert "waits for one replica" in refused(SemiSync(source).set, True, acknowledgements=2).expected
        SemiSync(source).set(True, acknowledgements=1)
    assert all("wait_count" in case.needs for name, case in CASES.items() if "-for-" in name)
    assert "wait_count" not in catalogue.engine("mariadb").features


def test_the_claims_that_one_machine_cannot_decide_say_why():
    """Waiting for many replicas is waiting for the CPUs that they share."""
    for preset in ("quick", "full"):
        undecidable = KNOWN.preset(preset).undecidable

        assert set(undecidable) == {"waiting-for-half-of-20", *(f"waiting-for-all-{n}" for n in (5, 10, 20))}
        assert all("share the CPUs" in why for why in undecidable.values())


def test_only_claims_about_more_acknowledgements_are_none_of_mariadb():
    """It always waits for one."""
    needing = {claim.id for claim in KNOWN.claims if any(CASES[case].needs for case in claim.relation.cases)}

    waiting = {f"waiting-for-all-{n}" for n in (5, 10, 20)} | {"waiting-for-half-of-20"}
    assert needing == waiting | {f"acknowledgements-cost-no-cpu-{n}" for n in (5, 10, 20)}
