"""Are a question's drills done under its conditions, and is nothing shown of them that is not proved?"""

import io

import msgspec
import pytest
from replication_lab import experiments, replication
from replication_lab import runs as running
from replication_lab.experiments.question.topologies import can_answer
from replication_lab.model.core.event import INTERRUPTED, Doubt
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.evidence import Evidence, FaultEvidence, NoiseWhile
from replication_lab.model.drill.history import Attempt, Copy, Invoked, Outcome, StatementEnd, encode
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.question.question import Question
from replication_lab.report import junit, page, terminal
from replication_lab.runner import asked_drills, drill_set
from replication_lab.world import catalogue, journal
from rich.console import Console

from tests.unit.valid_page import check

LOSE = "lose-source"
ACTED = Proof(what="source has ended", expected="137", found="137", ok=True)
# Topologies without a node that takes over by itself or by the lab.
ALONE = {"galera-2", "galera-6", "single"}


def question(*topologies, **others) -> Question:
    extent = {"rounds": 3, "seconds": 1, "margin": 1.0}
    return Question(**{"topologies": [*(topologies or ("async", "semisync"))], "drill": LOSE} | extent | others)


def planned(asked):
    return asked_drills.planned(experiments.asked(asked), "mariadb")


# --- which drill ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", sorted(drill_set.known()))
def test_a_drill_that_answers_lose_source_loses_who_accepts_the_writes(topology):
    """It is killed with the first fault, and clients wait on another node, which a failover or the servers choose."""
    if topology in ("raid", "single"):
        assert LOSE not in asked_drills.answers(topology)
        return
    found = drill_set.load(topology, asked_drills.answers(topology)[LOSE])
    shape, (step,) = catalogue.topology(topology), found.steps
    writer = found.initial_primary or shape.source.name

    assert (step.fault, step.targets, step.at) == ("kill", [writer], 0)
    assert writer in found.clients and set(found.clients) > {writer}
    if shape.replication in ("async", "semisync"):
        cut = {link for spec in step.also if (spec.fault, spec.at) == ("cut", 0) for link in spec.targets}
        served = {link.name for link in shape.links if link.source == writer and link.target == step.failover}
        every = {link.name for link in shape.links if link.source == writer}
        # Of two semi-synchronous replicas the one that was not cut off takes over.
        assert cut == (every - served if topology == "semisync-3" else every)
    kind = replication.kind_of(shape)
    assert step.failover or kind.elects or not kind.can_take_over()


def test_each_topology_that_can_be_asked_has_it():
    """Except topologies in which no node could take over."""
    able = {name for name in catalogue.topologies() if can_answer(catalogue.topology(name))}

    assert {name for name in able if LOSE not in asked_drills.answers(name)} == ALONE


def test_no_two_drills_of_a_topology_have_one_name():
    """The name in a drill's key `answers` is neither the name of another drill nor in another drill's key."""
    for topology, drills in drill_set.known().items():
        named = [*(each.name for each in drills), *(each.answers for each in drills if each.answers)]
        assert len(set(named)) == len(named), topology


@pytest.mark.parametrize(
    ("asked", "said", "expected"),
    [
        (question("async", "galera-2"), "galera-2 has no drill lose-source", "async, chain"),
        (question("async", drill="lost"), "async has no drill lost", "cut-link"),
        (question("async", "galera", drill="black-hole"), "galera has no drill black-hole", "async, drbd"),
        (question("semisync", settings={"replication": "async"}), "sets replication=async on semisync", "async"),
        (question("async", drill="read-only"), "drill read-only of async injects no fault", "lose-source"),
        (question("galera", drill="write-conflict"), "drill write-conflict of galera injects no fault", "kill-node"),
        (
            question("semisync", drill="lose-source-after-sync", settings={"wait_point": "AFTER_COMMIT"}),
            "sets the wait point AFTER_SYNC itself",
            "wait_point=AFTER_SYNC",
        ),
        (
            question(
                "galera",
                drill="kill-all-relaxed",
                settings={"innodb_flush_log_at_trx_commit": "1"},
            ),
            "sets innodb_flush_log_at_trx_commit itself",
            "",
        ),
    ],
)
def test_a_drill_that_cannot_be_had_is_refused_before_anything_starts(asked, said, expected, refused):
    """By name."""
    error = refused(planned, asked)

    assert said in error.found
    assert expected in error.expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"drill": "", "drill_runs": 3, "vary": {"clients": ["1", "2"]}}, "drill_runs is 3, but no drill is given"),
        ({"drill_runs": 51}, "drill-runs is 51"),
        ({"drill": "", "claims": ["lost[topology=async] <= 0"]}, "lost is measured by a drill"),
        ({"claims": ["lost[topology=async] / lost[topology=semisync] <= 0"]}, "uses lost in a ratio"),
    ],
)
def test_a_question_about_drills_that_makes_no_sense_is_refused(change, said, refused):
    """In the text that a user reads."""
    assert said in refused(lambda: experiments.asked(question(**change))).found


def test_a_drill_of_machines_has_the_protocol_of_its_case():
    """Beside the options that its file has."""
    asked = question("drbd", vary={"protocol": ["A", "C"]}, drill="lose-power-and-primary-tuned")
    found = {each.case.name: each.drill.options for each in planned(asked)}
    tuned = {"disk": ["--disk-flushes=no"], "mount": ["barrier=0"]}

    assert found == {f"protocol={name}": {**tuned, "net": [f"--protocol={name}"]} for name in ("A", "C")}


def test_a_drill_runs_under_the_conditions_of_its_case():
    """As many clients as in the case on the node that is lost, and its wait point; three drills of each case."""
    asked = question("semisync", vary={"wait_point": ["AFTER_SYNC", "AFTER_COMMIT"]}, settings={"clients": "16"})
    found = planned(asked)

    assert [(each.run, each.number) for each in found] == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]
    assert [each.drill.semisync.wait_point for each in found[:2]] == ["AFTER_SYNC", "AFTER_COMMIT"]
    assert {tuple(each.drill.clients.items()) for each in found} == {(("source", 16), ("replica", 1))}
    assert len({each.folder for each in found}) == len(found)


def test_a_case_without_a_wait_point_keeps_the_servers_own():
    """As its load does."""
    assert {each.drill.semisync for each in planned(question("semisync"))} == {None}


def test_a_drill_alone_is_a_question():
    """Nothing needs to vary."""
    assert [case.name for case in experiments.asked(question("semisync")).cases] == ["topology=semisync"]


# --- done in a model of a lab -----------------------------------------------------------------------------------------


def done(run, engine, what, lost=0, rto=2.0, **changes) -> Evidence:
    """Write a ledger of ten rows, of which the copies lack the last `lost`; the service is back after `rto` seconds."""
    own = run.journal.folder / what.folder
    own.mkdir()
    ledger = journal.ledger(own, what.drill.name)
    history = [Attempt(at, 1, "source", at / 10, at / 10 + 0.05, Outcome.ACKNOWLEDGED) for at in range(10)]
    history.append(Attempt(10, 1, "source", 1.4, 1.5, Outcome.FAILED, 2003))
    history += [
        Attempt(11 + at, 2, node, 1.0 + rto - 0.1, 1.0 + rto, Outcome.ACKNOWLEDGED)
        for at, node in enumerate(what.drill.clients)
    ]
    with ledger.open("wb") as lines:
        for one in history:
            lines.write(encode(Invoked(one.id, one.client, one.node, one.invoked, "t")))
            lines.write(encode(StatementEnd(one.id, one.ended, one.outcome, one.code)))
    kept = [(0, 9 - lost), (11, 10 + len(what.drill.clients))]
    found = Evidence(
        drill=what.drill,
        at="t",
        load=(0.0, 10.0),
        acted=[FaultEvidence(what.drill.steps[0], 1.0, 1.1, 5.0, 6.0, 6.0, [ACTED], {}, 1.0)],
        copies=[Copy("source", kept), Copy("replica", kept)],
        engine=engine,
        case=what.case.name,
        run=what.run,
        ledger=f"{what.folder}/{ledger.name}",
    )
    return msgspec.structs.replace(found, **changes)


def told(summary) -> str:
    text = io.StringIO()
    Console(file=text, width=100).print(terminal.render(summary))
    return " ".join(text.getvalue().split())


def of_async(what, **changes):
    """Return changes for the drills of the asynchronous case alone."""
    return changes if what.case.lab.topology == "async" else {}


def test_the_table_says_what_is_lost_and_for_how_long_there_is_no_service(ran, undrawn):
    """The range of all runs is shown; a claim is judged by the worst run; the record alone gives the same result."""
    claims = ["lost[topology=semisync] <= 0", "rto[topology=async] <= 3", "lost[topology=async] <= 2"]
    summary, record, _ = ran(
        experiments.asked(question(claims=claims)),
        preset="ask",
        drill=lambda run, engine, what: done(run, engine, what, **of_async(what, lost=what.run, rto=1.0 + what.run)),
    )
    first, second = summary.drilled

    assert (first.lost.low, first.lost.high, first.lost.n) == (1, 3, 3)
    assert (first.rto_s.low, first.rto_s.high) == (2.0, 4.0)
    assert (second.lost.high, second.known, second.not_proved) == (0, True, [])
    assert {claim.id: claim.verdict for claim in summary.claims if claim.id.startswith("claim")} == {
        "claim-1.1": "HOLDS",
        "claim-2.1": "REFUTED",
        "claim-3.1": "REFUTED",
    }
    assert (summary.verdict, record.end.why) == ("CHANGED", "decided")
    said = told(summary)
    assert "1–3 (" in said and "2.0–4.0" in said
    assert "async: Source and link fail at the same moment" in said and "A failover promotes replica 2 s after" in said
    assert "Zero losses in 3 drills allow a true rate of up to 63% of such events (95 % confidence)" in said
    assert msgspec.json.encode(running.judge("latest").drilled) == msgspec.json.encode(summary.drilled)


def test_tables_whose_lost_changes_are_not_counted_are_named_once_for_each_case(ran, undrawn):
    """All drills of a case run the same transactions."""
    summary, _, _ = ran(
        experiments.asked(question()),
        preset="ask",
        drill=lambda run, engine, what: done(run, engine, what, uncounted_tables=["lab.item"]),
    )

    assert told(summary).count("lost changes of lab.item cannot be counted") == len(summary.drilled)


FAILED = Proof(what="source-replica has 40ms", expected="36 ms", found="0.3 ms", ok=False)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"acted": []}, "only 0 of 1 steps were carried out"),
        ({"conditions": [FAILED]}, "source-replica has 40ms: expected 36 ms, found 0.3 ms"),
        ({"doubts": ["the lab did not start"]}, "the lab did not start"),
        ({"copies": []}, "no copy was read"),
        ({"copies": [Copy("source", [(0, 99)]), Copy("replica", [(0, 99)])]}, "phantom rows"),
        ({"forbidden": ["source: got an assertion"]}, "no forbidden pattern"),
        ({"ledger": "drill-1.1/gone.jsonl"}, "no statement was acknowledged"),
    ],
)
def test_what_is_not_proved_is_no_number(changes, why, ran):
    """One of three drills suffices: an unproved fault or condition, a checker that failed, a missing ledger."""

    def spoiled(run, engine, what):
        return done(run, engine, what, **(of_async(what, **changes) if what.run == 2 else {}))

    summary, _, _ = ran(
        experiments.asked(question(claims=["lost[topology=async] <= 100"])), preset="ask", drill=spoiled
    )
    first, second = summary.drilled

    assert (first.lost, first.rpo_s, first.rto_s, first.known) == (None, None, None, False)
    assert all(line.startswith("drill 2 of 3: ") for line in first.not_proved)
    assert any(why in line for line in first.not_proved)
    assert second.known
    verdicts = {claim.id: claim.verdict for claim in summary.claims}
    assert verdicts["claim-1.1"] == verdicts["lost:topology=async"] == verdicts["rto_s:topology=async"] == "UNKNOWN"
    assert summary.exit_code == 3
    assert f"not verified: topology=async: drill 2 of 3: {first.not_proved[0].partition(': ')[2]}"[:90] in told(summary)
    assert junit.render(summary).count(b"<error") == 3


NOISY = Noise(foreign_cpu=0.6, quiet=False, why="other programs used 60% of the CPUs (limit 25%)")


def test_a_time_without_service_that_others_may_have_lengthened_refutes_nothing(ran):
    """Rows that are lost are lost, and a service that was back soon enough is so on a quiet machine, too."""
    noise = [NoiseWhile(0.0, 1.0, Noise()), NoiseWhile(1.0, 5.0, NOISY)]
    of_async_alone = ("rto{} <= 5", "rto{} <= 3", "rto{} >= 1", "lost{} <= 2", "lost{} <= 3")
    claims = [text.format("[topology=async]") for text in of_async_alone]
    summary, _, _ = ran(
        experiments.asked(question("async", claims=claims)),
        preset="ask",
        drill=lambda run, engine, what: done(
            run, engine, what, lost=what.run, rto=1.0 + what.run, noise=noise if what.run == 2 else []
        ),
    )
    found = {claim.id: claim for claim in summary.claims}

    assert [found[f"claim-{number}.1"].verdict for number in range(1, 6)] == [
        "HOLDS",
        # The third drill, on a quiet machine, took 4 s.
        "REFUTED",
        "UNKNOWN",
        "REFUTED",
        "HOLDS",
    ]
    assert found["lost:topology=async"].verdict == "HOLDS"
    assert found["rto_s:topology=async"].verdict == "UNKNOWN"
    assert "but on a noisy machine: from 1.0 to 5.0 s other programs used 60%" in found["rto_s:topology=async"].reason
    assert [why for why in summary.environment.noise.why if "lose-source" in why] == [
        "topology=async lose-source, from 1.0 to 5.0 s other programs used 60% of the CPUs (limit 25%)"
    ]


def test_a_service_that_does_not_come_back_is_no_number(ran):
    """No write was acknowledged after the fault."""
    summary, _, _ = ran(experiments.asked(question("async")), preset="ask", drill=lambda *each: done(*each, rto=-0.5))

    assert any("no figure rto_s" in line or "takes writes" in line for line in summary.drilled[0].not_proved)


def test_drills_that_were_not_done_are_unknown(ran):
    """An interruption ends the run; what was found until then is shown."""

    def interrupted(run, engine, what):
        if (what.run, what.number) == (3, 1):
            raise KeyboardInterrupt("SIGINT")
        return done(run, engine, what)

    summary, record, world = ran(experiments.asked(question()), preset="ask", drill=interrupted)

    assert record.end.why == INTERRUPTED
    assert [row.not_proved for row in summary.drilled] == [["drill 3 of 3 was not run: interrupted by SIGINT"]] * 2
    assert all(len(row.drills) == 2 for row in summary.drilled)
    assert summary.exit_code == 3
    assert world.taken_down == world.came_up


def test_engines_that_vary_stand_in_one_table(ran, undrawn):
    """Each case is drilled on its own engine alone, and a claim about its drill is judged there."""
    asked = question("semisync", vary={"engine": ["mariadb", "mysql-8.0"]}, claims=["lost[engine=mysql-8.0] <= 0"])
    summary, record, _ = ran(experiments.asked(asked), engines=("mariadb", "mysql-8.0"), preset="ask", drill=done)

    assert [(row.engine, row.case, row.known) for row in summary.drilled] == [
        ("mariadb", "engine=mariadb", True),
        ("mysql-8.0", "engine=mysql-8.0", True),
    ]
    assert [(claim.engine, claim.verdict) for claim in summary.claims if claim.id == "claim-1.1"] == [
        ("mysql-8.0", "HOLDS")
    ]
    assert len([each for each in record.events if isinstance(each, Evidence)]) == 6
    assert told(summary).count("p50 ÷ RTT") == 1


@pytest.mark.parametrize(
    ("topologies", "claims", "drills"),
    [
        (("semisync",), [], 3),
        (("async", "semisync"), ["throughput[topology=async] <= 0"], 0),
    ],
)
def test_labs_that_are_kept_wait_for_no_drill(topologies, claims, drills, fake_world, runs, undrawn):
    """What a drill has yet to find fails nothing; after a load whose labs are left up, the run ends."""
    asked = experiments.asked(question(*topologies, claims=claims))
    request = RunRequest(asked, asked.engines, "ask", 7, keep=True)
    _, summary = running.run(request, lambda _line: None, fake_world(drill=done))

    assert {len(row.drills) for row in summary.drilled} == {drills}
    assert summary.ended == ("decided" if drills else "kept")


def test_a_lab_of_a_drill_that_does_not_start_is_a_doubt(monkeypatch, tmp_path):
    """The other drills are done all the same."""

    def no_lab(*_others, **_more):
        raise running.LabError("the machine has no memory", "more")

    monkeypatch.setattr(drill_set, "Labs", no_lab)
    asked = experiments.asked(question())
    found = asked_drills.done(
        asked, "mariadb", asked_drills.planned(asked, "mariadb")[0], 7, tmp_path, lambda _line: None
    )

    assert found.doubts == ["the machine has no memory"]
    assert (found.engine, found.case, found.run) == ("mariadb", "topology=async", 1)


def test_a_doubt_of_the_run_is_one_of_its_drills(ran):
    """Copies that differ after the load: nothing is believed."""
    _, record, _ = ran(experiments.asked(question("async")), preset="ask", drill=done)
    judged = experiments.of(record).judge(record.plus(Doubt(reason="a copy differs")), "mariadb")

    assert {one.verdict for one in judged} == {"UNKNOWN"}


def test_the_page_shows_the_table_and_each_drill(ran):
    """Beside the load's figures."""
    summary, record, _ = ran(experiments.asked(question("async")), preset="ask", drill=done)
    html = page.render(summary, record)

    check(html)
    assert "Figures for the decision" in html
    assert html.count("rows          0 lost") == 3
