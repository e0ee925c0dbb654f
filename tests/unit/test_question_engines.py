"""Are engines compared in the same rounds, and is each figure read on the engine on which it was measured?"""

import pytest
from msgspec import structs
from replication_lab import experiments
from replication_lab import runs as running
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.question.question import Question
from replication_lab.model.record.measurement import Measurement
from replication_lab.model.record.record import Record
from replication_lab.report import summarise
from replication_lab.world import catalogue

BOTH = ["mariadb", "mysql-8.0"]


def question(vary=None, **others) -> Question:
    return Question(**{"topologies": ["semisync"], "vary": {"engine": BOTH, **(vary or {})}} | others)


@pytest.fixture
def answered(ran):
    """Return (summary, record, world) of a question."""

    def answer(asked, **troubles):
        experiment = experiments.asked(asked)
        return ran(experiment, engines=experiment.engines, preset="ask", **troubles)

    return answer


def test_each_case_is_measured_on_its_engine_in_the_same_rounds(answered):
    """The record has the engine of each measurement, and no case is measured on another engine."""
    _, record, world = answered(question({"clients": ["1", "4"]}))
    rounds = {number: {m.case for m in record.measurements if m.round == number} for number in (1, 2, 3)}

    assert all(m.case.startswith(f"engine={m.engine},") for m in record.measurements)
    assert world.came_up == BOTH and sorted(world.taken_down) == BOTH
    assert all(len(cases) == 4 for cases in rounds.values())
    assert [(lab.engine, lab.not_applicable) for each in BOTH for lab in record.labs(each)] == [(e, {}) for e in BOTH]


def test_engines_are_compared_with_the_first(answered):
    """Each answer stands once, at the engine of its case."""
    summary, _, _ = answered(question({"clients": ["1", "4"]}))

    assert summary.verdict in ("AS_EXPECTED", "UNKNOWN")
    assert [(row.engine, row.changed, row.common) for row in summary.effects] == [
        ("mysql-8.0", "engine=mysql-8.0", f"clients={n}") for n in (1, 4)
    ]
    assert all(row.throughput_ratio and row.latency_p50_difference_ms for row in summary.effects if row.known)
    assert {claim.engine for claim in summary.claims} == {"mysql-8.0"}
    assert "mysql-8.0 of mysql-8.0" not in summary.claims[0].relation
    assert summary.not_judged == []


def test_another_setting_is_compared_on_each_engine(answered):
    """The baseline is the same engine's."""
    summary, _, _ = answered(
        question({"clients": ["1", "4"]}, baseline={"clients": "1"}, claims=["p50[clients=4] <= 1000"])
    )

    assert [(row.engine, row.baseline) for row in summary.effects] == [
        (engine, f"engine={engine},clients=1") for engine in BOTH
    ]
    assert [claim.engine for claim in summary.claims if claim.id.startswith("claim-1")] == BOTH


def test_a_claim_compares_engines_by_their_own_figures(answered):
    """A ratio is that of the figures that were recorded on the two engines, round by round."""
    asked = question(claims=["p50[engine=mysql-8.0] / p50[engine=mariadb] <= 2"])
    _, record, _ = answered(asked)
    slower = Record([_with_latency(event, {"mariadb": 5.0, "mysql-8.0": 15.0}) for event in record.events])
    summary = summarise(experiments.of(slower), slower)
    (claim,) = [each for each in summary.claims if each.id == "claim-1.1"]

    assert claim.measured == pytest.approx(3, rel=0.01) and str(claim.verdict) == "REFUTED"
    assert summary.exit_code == 1


def _with_latency(event, of_engine):
    if not isinstance(event, Measurement):
        return event
    # Rounds without any difference allow no interval.
    ms = of_engine[event.engine] + event.round / 1000
    return structs.replace(event, figures={**event.figures, "latency_p50_ms": ms})


def test_what_one_engine_cannot_have_is_not_known(answered):
    """The other engine's answer does not stand for both: exit status 0 means that every effect is known."""
    asked = question(
        {"engine": ["mariadb", "mysql-5.6"], "clients": ["1", "4"]},
        settings={"wait_point": "AFTER_SYNC", "rtt": "40ms"},
        baseline={"clients": "1"},
    )
    summary, _, _ = answered(asked)

    assert [(row.engine, row.known) for row in summary.effects] == [("mariadb", True), ("mysql-5.6", False)]
    assert summary.not_judged and (summary.verdict, summary.exit_code) == ("UNKNOWN", 3)


@pytest.mark.parametrize("engine", BOTH)
def test_a_doubt_of_either_engine_makes_the_comparison_unknown(answered, engine):
    """The sabotage: a variable is changed on one of the two servers."""

    def meddle(lab, _load):
        if lab.engine == engine:
            lab.node("source").server().set_global(sync_binlog=7)

    summary, _, _ = answered(question(settings={"sync_binlog": "1"}), meanwhile=meddle)

    assert summary.verdict == "UNKNOWN" and not summary.effects[0].known
    assert "source has sync_binlog=" in summary.claims[0].reason


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"vary": {"engine": ["mariadb", "mysqld-8.0"]}}, "unknown engine 'mysqld-8.0'"),
        ({"topologies": ["galera"]}, "engine mysql-8.0 has no galera, which galera needs"),
        ({"vary": {"engine": ["mysql-8.0", "mysql-8.0"]}}, "engine has a value twice"),
        ({"settings": {"engine": "mysql-8.0"}, "vary": {"clients": ["1", "2"]}}, "engine is not a setting"),
        ({"engine": "mysql-5.6"}, "the engine is mysql-5.6, and engines vary: mariadb, mysql-8.0"),
    ],
)
def test_an_engine_that_cannot_be_compared_is_refused(fake_world, runs, asked, said, refused):
    """One message, before anything starts."""
    world = fake_world()

    def ask():
        found = Question(**{"topologies": ["semisync"], "vary": {"engine": BOTH}} | asked)
        running.run(RunRequest(experiments.asked(found), found.engines, "ask", 7), lambda _line: None, world)

    assert said in refused(ask).found
    assert not world.came_up and not runs.exists()


def test_an_unknown_engine_is_told_the_nearest(fake_world, refused):
    """A slip of the pen."""
    asked = question({"engine": ["mariadb", "mysql-8.00"]})
    error = refused(running.run, RunRequest(experiments.asked(asked), asked.engines, "ask", 7), print, fake_world())

    assert "mysql-8.0" in f"{error}"


# --- each topology on its own engine ----------------------------------------------------------------------------------


def test_without_an_engine_each_topology_has_its_own():
    """Only a group's is not MariaDB."""
    asked = Question(topologies=["async", "semisync", "galera", "group", "drbd"], settings={"clients": "4"})
    found = experiments.asked(asked)

    assert asked.engines == [] and list(found.engines) == BOTH
    assert [case.lab.engine for case in found.cases] == [*["mariadb"] * 3, "mysql-8.0", "mariadb"]


def test_topologies_on_their_own_engines_are_compared(answered, monkeypatch):
    """The record and the summary tell the engine of each case, and the answer stands at that of its case."""
    monkeypatch.setattr(catalogue, "default_engine", {"galera": "mariadb", "semisync": "mysql-8.0"}.get)
    asked = Question(topologies=["galera", "semisync"], settings={"rtt": "40ms"})
    summary, record, _ = answered(asked)

    assert {(m.engine, m.case) for m in record.measurements} == {
        ("mariadb", "topology=galera"),
        ("mysql-8.0", "topology=semisync"),
    }
    assert [(row.engine, row.name) for row in summary.cases] == [
        ("mariadb", "topology=galera"),
        ("mysql-8.0", "topology=semisync"),
    ]
    assert [(row.engine, row.changed, row.known) for row in summary.effects] == [
        ("mysql-8.0", "topology=semisync", True)
    ]


def test_a_named_engine_is_that_of_every_topology(fake_world, runs, refused):
    """One that a topology cannot have is refused, with an engine that it can."""
    asked = Question(topologies=["async", "group"], engine="mariadb")
    error = refused(running.run, RunRequest(experiments.asked(asked), [], "ask", 7), print, fake_world())

    assert "engine mariadb has no group, which group needs" in error.found
    assert "./lab ask async,group --engine mysql" in error.next_step
    assert not runs.exists()
