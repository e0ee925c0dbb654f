"""Is a user's question read as it was meant, and is one that cannot be answered refused before anything starts?"""

import io
import math

import pytest
from msgspec import structs
from replication_lab import experiments
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.variable import is_same, literal
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.claim import parse_claim
from replication_lab.model.experiment.quantities import p95
from replication_lab.model.question.question import Question
from replication_lab.report import terminal
from replication_lab.world import catalogue
from rich.console import Console

from tests.fakes.server import FakeServer

BOTH = {"sync_binlog": ["0", "1"], "clients": ["1", "16"]}


def question(vary=None, **others) -> Question:
    return Question(**{"topologies": ["semisync"], "vary": BOTH if vary is None else vary} | others)


def compared(found: Question) -> list[tuple[str, str]]:
    return [(effect.case, effect.baseline) for effect in found.effects()]


def test_all_combinations_are_cases():
    """Two settings of two values each make four cases."""
    names = [case.name for case in experiments.asked(question()).cases]

    assert names == [f"sync_binlog={log},clients={n}" for log in (0, 1) for n in (1, 16)]


def test_the_first_value_of_the_first_setting_is_the_baseline():
    """The other settings are the same on both sides."""
    assert compared(question()) == [
        ("sync_binlog=1,clients=1", "sync_binlog=0,clients=1"),
        ("sync_binlog=1,clients=16", "sync_binlog=0,clients=16"),
    ]


def test_any_value_may_be_the_baseline():
    """It is named by its setting; several settings make one case the baseline of all."""
    assert compared(question(baseline={"clients": "16"})) == [
        ("sync_binlog=0,clients=1", "sync_binlog=0,clients=16"),
        ("sync_binlog=1,clients=1", "sync_binlog=1,clients=16"),
    ]
    assert {base for _, base in compared(question(baseline={"clients": "1", "sync_binlog": "1"}))} == {
        "sync_binlog=1,clients=1"
    }


def test_each_case_has_what_it_was_asked_for():
    """Settings of the lab, and variables of its servers."""
    asked = question({"rtt": ["0", "40ms"]}, settings={"source.sync_binlog": "0", "replication": "async"})
    near, far = experiments.asked(asked).cases

    assert (near.toxics, far.toxics) == ({}, {"source-replica": catalogue.toxic("40ms")})
    assert far.state.servers.variables == {("source", "sync_binlog"): "0"}
    assert far.state.replication == "async"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("1", 1),
        ("ON", 1),
        ("OFF", "OFF"),
        ("on", "ON"),
        ("ON", -1),
        ("64M", 67108864),
        ("1k", "1024"),
        ("row", "ROW"),
        ("0.5", 0.5),
    ],
)
def test_a_server_says_the_same_in_its_own_words(asked, found):
    """ON is 1, a size is a number of bytes, letters may be large or small."""
    assert is_same(asked, found)


@pytest.mark.parametrize(("asked", "found"), [("1", 2), ("ON", "OFF"), ("64M", 67108863), ("ROW", "MIXED")])
def test_another_value_is_not_the_same(asked, found):
    """A value that a server changed is seen."""
    assert not is_same(asked, found)


@pytest.mark.parametrize(
    ("value", "sql"), [("1", "1"), ("ON", "ON"), ("16M", "16777216"), ("ROW", "'ROW'"), ("-1", "-1"), ("0.25", "0.25")]
)
def test_a_value_is_written_as_the_server_takes_it(value, sql):
    """Numbers and switches bare, words in quotes, sizes in bytes."""
    assert literal(value) == sql


def test_a_claim_holds_for_each_setting_that_it_leaves_open():
    """One claim for each number of clients."""
    found = parse_claim("throughput[sync_binlog=1] / throughput[sync_binlog=0] >= 0.9", question())

    assert [relation.cases for _, relation in found] == compared(question())
    assert all((relation.low, relation.high) == (0.9, math.inf) for _, relation in found)
    assert found[1][0].endswith("with clients=16")


def test_a_claim_may_bound_one_figure():
    """Latency in ms."""
    ((_, relation),) = parse_claim("p95[sync_binlog=1,clients=16] <= 20", question())

    assert relation == (p95("sync_binlog=1,clients=16") <= 20)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("throughput > 3", "cannot be read"),
        ("throughput[clients=1] == 3", "cannot be read"),
        ("speed[clients=1] >= 3", "unknown quantity 'speed'"),
        ("throughput[flush=1] >= 3", "unknown varied setting in the claim 'flush'"),
        ("throughput[clients=2] >= 3", "unknown value of clients in the claim '2'"),
        ("throughput[clients=1] / throughput[sync_binlog=1] >= 3", "on one side of the ratio only"),
    ],
)
def test_a_claim_that_cannot_be_judged_is_refused(text, said, refused):
    """The text says what was wrong with it."""
    assert said in refused(parse_claim, text, question()).found


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"vary": {}}, "nothing is varied"),
        ({"vary": {"topology": ["async", "galera"]}}, "topology is not a setting"),
        ({"vary": {"clients": ["1", "1"]}}, "clients has a value twice"),
        ({"vary": {"clients": ["0", "1"]}}, "clients is '0'"),
        ({"vary": {"clients": ["many"]}}, "clients is 'many'"),
        ({"vary": {"clients": ["1", "1000"]}}, "clients is '1000'"),
        ({"vary": {"replication": ["sync"]}}, "unknown replication 'sync'"),
        ({"vary": {"wait_point": ["AFTER_ALL"]}}, "unknown wait_point 'AFTER_ALL'"),
        ({"vary": {"sync binlog": ["1"]}}, "'sync binlog' is not a setting"),
        ({"vary": {"sync_binlog": ["1; DROP TABLE t"]}}, "sync_binlog is '1; DROP TABLE t'"),
        ({"vary": {"sync_binlog": ["'1'"]}}, "sync_binlog is \"'1'\""),
        ({"vary": {"far.sync_binlog": ["0", "1"]}}, "semisync has no node 'far'"),
        ({"vary": {"a": list("12345678"), "b": list("12345")}}, "the question has 40 cases"),
        ({"settings": {"clients": "2"}}, "clients is both varied and set"),
        ({"baseline": {"flush": "1"}}, "unknown varied setting in the baseline 'flush'"),
        ({"baseline": {"clients": "2"}}, "unknown value of clients in the baseline '2'"),
        ({"seconds": 0}, "seconds is 0"),
        ({"rounds": 2}, "rounds is 2"),
        ({"margin": 0.0}, "margin is 0"),
        ({"max_minutes": -1.0}, "max-minutes is -1"),
        ({"vary": {"rtt": ["0", "wan-85"]}}, "wan-85"),
        ({"vary": {"rtt": ["0", "black-hole"]}}, "rtt is 'black-hole'"),
        ({"topologies": ["nowhere"]}, "nowhere"),
        ({"topologies": ["galera"], "vary": {"replication": ["async"]}}, "is a cluster"),
        ({"topologies": ["async", "async"]}, "topology async is named twice"),
        ({"topologies": ["semisync", "galera"], "settings": {"node1.sync_binlog": "1"}}, "semisync has no node"),
        ({"topologies": ["async"], "vary": {"replication": ["async", "semisync"]}}, "are not set up for semi-sync"),
        ({"vary": {"replication": ["async"]}, "settings": {"wait_point": "AFTER_SYNC"}}, "has a wait point"),
        ({"claims": ["throughput"]}, "cannot be read"),
    ],
)
def test_what_cannot_be_answered_is_refused(asked, said, refused):
    """One message, before anything starts."""
    assert said in refused(lambda: experiments.asked(question(**asked))).found


def test_a_single_case_is_compared_with_nothing(refused):
    """A claim about it, a drill, or another case is something to measure it for."""
    alone = question({"sync_binlog": ["0"], "clients": ["4"]})
    said = refused(alone.refuse_a_single_case)

    assert said.found == "the question has one case, sync_binlog=0, clients=4, and nothing to compare it with"
    assert said.next_step == "--vary sync_binlog=0,…"
    for more in ({"vary": {"sync_binlog": ["0", "1"]}}, {"claims": ["throughput[sync_binlog=0,clients=4] >= 9"]}):
        structs.replace(alone, **more).refuse_a_single_case()


def test_a_file_holds_a_question(tmp_path, refused):
    """What is no question, or no file, is told."""
    file = tmp_path / "question.yaml"
    file.write_text("topologies: [semisync]\nvary: {clients: ['1', '4']}\n")

    assert [case.name for case in experiments.from_file(file).cases] == ["clients=1", "clients=4"]
    file.write_text("topologies: [semisync]\nvary: {clients: ['1', '4']}\ncolour: red\n")
    assert "holds no question" in refused(experiments.from_file, file).found
    assert "cannot be read" in refused(experiments.from_file, tmp_path / "none.yaml").found


# --- answered in a model of a lab -------------------------------------------------------------------------------------


# The model runs commit by commit, and far away there are fewer of them in the same time.
FAR = {"rtt": "wan-85ms"}


def test_an_effect_is_measured_until_it_is_known(ran):
    """The law: sixteen clients commit as often as one at the same round trip, times sixteen."""
    asked = question({"clients": ["1", "16"]}, settings=FAR)
    summary, record, _ = ran(experiments.asked(asked), preset="ask")
    (effect,) = summary.effects

    assert summary.verdict == "AS_EXPECTED"
    assert record.end.why == "decided"
    # A bit less than sixteen: clients at once also wait for each other's CPU time.
    assert effect.known and 0.9 * 16 < effect.throughput_ratio.low < effect.throughput_ratio.high < 16
    assert effect.sentence.startswith("clients=16 gains 1")


def test_topologies_are_compared_with_the_first(ran):
    """A commit waits a round trip with semi-sync and in a cluster, and for nothing without."""
    asked = Question(topologies=["async", "semisync", "galera"], settings={"rtt": "40ms"})
    summary, _, _ = ran(experiments.asked(asked), preset="ask")

    assert summary.verdict == "AS_EXPECTED"
    assert [(effect.changed, effect.known) for effect in summary.effects] == [
        ("topology=semisync", True),
        ("topology=galera", True),
    ]
    assert all(effect.throughput_ratio.high < 0.5 for effect in summary.effects)


def test_a_record_of_a_question_is_judged_again(ran):
    """The record holds the question, so that nothing else is needed."""
    asked = question(
        {"clients": ["1", "4"]}, claims=["throughput[clients=4] / throughput[clients=1] >= 2"], settings=FAR
    )
    _, record, _ = ran(experiments.asked(asked), preset="ask")

    assert record.run.question == asked
    assert [case.name for case in experiments.of(record).cases] == ["clients=1", "clients=4"]


def test_an_effect_that_stays_too_uncertain_is_unknown(ran):
    """Three rounds cannot tell it to a thousandth."""
    asked = question({"clients": ["1", "2"]}, rounds=3, seconds=1, margin=0.001)
    summary, record, _ = ran(experiments.asked(asked), preset="ask")

    assert (summary.verdict, record.end.why) == ("UNKNOWN", "round limit")
    assert not summary.effects[0].known and "not precise enough" in summary.effects[0].sentence


def test_a_claim_that_does_not_hold_is_told(ran):
    """Sixteen clients are not a hundred times as fast as one."""
    asked = question(
        {"clients": ["1", "16"]}, claims=["throughput[clients=16] / throughput[clients=1] >= 100"], settings=FAR
    )
    summary, _, _ = ran(experiments.asked(asked), preset="ask")

    assert summary.verdict == "CHANGED"


@pytest.mark.parametrize(
    ("vary", "said"),
    [
        ({"sink_binlog": ["0", "1"]}, "source has no variable sink_binlog; did you mean sync_binlog?"),
        ({"innodb_flush_log_at_trx_commit": ["0", "7"]}, "changed innodb_flush_log_at_trx_commit=7 to 2"),
    ],
)
def test_a_setting_that_a_server_does_not_take_ends_the_run(ran, vary, said, refused):
    """No case is measured with a value that nobody asked for."""
    assert said in refused(ran, experiments.asked(question(vary)), preset="ask").found


def test_a_variable_that_somebody_changes_meanwhile_makes_it_unknown(ran):
    """The sabotage: another administrator sets the variable during the load."""

    def meddle(lab, _load):
        lab.node("source").server().set_global(sync_binlog=0)

    summary, _, _ = ran(experiments.asked(question({"sync_binlog": ["1", "0"]})), preset="ask", meanwhile=meddle)

    assert summary.verdict == "UNKNOWN" and not summary.effects[0].known
    assert all("source has sync_binlog=" in claim.reason for claim in summary.claims)


def test_variables_are_as_before_afterwards(ran):
    """A case's variables are not those of the next one."""
    seen = []

    def look(lab, _load):
        seen.append(lab)

    ran(experiments.asked(question({"sync_binlog": ["0", "100"]})), preset="ask", meanwhile=look)

    assert seen[-1].node("source").server().settings("sync_binlog") == {"sync_binlog": "1"}


def test_variables_set_before_an_error_are_set_back(ran, monkeypatch, refused):
    """The source has taken the value when the replica refuses it."""
    execute, seen = FakeServer.execute, {}

    def refuse(server, *statements):
        seen[server.name] = server
        if server.name == "replica" and "SET GLOBAL sync_binlog = 100" in statements:
            raise LabError("the replica refuses", "a statement that succeeds")
        execute(server, *statements)

    monkeypatch.setattr(FakeServer, "execute", refuse)

    assert "refuses" in refused(ran, experiments.asked(question({"sync_binlog": ["100", "0"]})), preset="ask").found
    assert seen["source"].settings("sync_binlog") == {"sync_binlog": "1"}


def test_a_nodes_own_value_goes_before_that_of_all(ran):
    """Both are asked for; the source has its own, and both are proved."""
    asked = question({"clients": ["1", "4"]}, settings={"source.sync_binlog": "0", "sync_binlog": "100"})
    _, record, _ = ran(experiments.asked(asked), preset="ask")
    proved = {proof.what for proof in record.measurements[0].proofs}

    assert {"source has sync_binlog=0", "replica has sync_binlog=100"} <= proved
    assert "source has sync_binlog=100" not in proved


def test_an_unknown_latency_is_shown_beside_a_known_throughput(ran):
    """The answer is of the throughput; what is not known about the latency must not be hidden behind it."""
    summary, _, _ = ran(experiments.asked(question({"clients": ["1", "4"]})), preset="ask")
    of_latency = summary.effects[0].claims[1]
    claims = [
        structs.replace(each, verdict=Verdict.UNKNOWN) if each.id == of_latency else each for each in summary.claims
    ]
    printed = io.StringIO()
    Console(width=120, file=printed).print(terminal.render(structs.replace(summary, claims=claims)))

    assert "UNKNOWN" in printed.getvalue() and "commit p50" in printed.getvalue()
