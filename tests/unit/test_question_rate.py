"""A load with a rate: is the rate parsed correctly, are the answers about latencies, and is a missed rate reported?"""

import io
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec import structs
from replication_lab import cli, experiments
from replication_lab.model.core.errors import LabError
from replication_lab.model.experiment.claim import parse_claim
from replication_lab.model.experiment.quantities import Figure
from replication_lab.model.question.load import kept, per_second, planned
from replication_lab.model.question.question import Question
from replication_lab.model.record.measurement import FEWEST_FOR_P999, Measurement, p999, pooled
from replication_lab.report import terminal, wording
from replication_lab.workloads.timed_script import TimedScript
from rich.console import Console


def question(vary=None, **others) -> Question:
    return Question(
        **{"topologies": ["semisync"], "vary": vary or {"clients": ["4", "16"]}, "settings": {"rate": "200/s"}}
        | {"rounds": 3, "margin": 1.0, "seconds": 1}
        | others
    )


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("200/s", 200),
        ("12000/m", 200),
        ("0.5/s", 0.5),
        ("100/m", 100 / 60),
        ("1000000/s", 1e6),
        ("200", 200),
        ("7200/h", 2),
        ("12000/min", 200),
    ],
)
def test_a_rate_is_a_number_of_transactions_in_a_time(text, rate):
    """Each second or each minute."""
    assert per_second(text) == pytest.approx(rate)


BAD_RATES = ["0/s", "0.0/m", "-5/s", "", "200/d", "200 / s", "many/s", "1e3/s", "1000001/s", "99999999999999/m"]


@pytest.mark.parametrize("text", BAD_RATES)
def test_what_is_no_rate_is_refused_before_anything_starts(text, refused):
    """As a setting, and where it varies."""
    assert f"rate is {text!r}" in refused(question, settings={"rate": text}).found
    assert f"rate is {text!r}" in refused(question, {"rate": ["200/s", text]}, settings={}).found


def test_the_command_refuses_a_bad_rate():
    """The option is the setting."""
    said = CliRunner().invoke(cli.cli, ("ask", "semisync", "--vary", "clients=1,2", "--rate", "200/d"), prog_name="lab")

    assert isinstance(said.exception, LabError) and said.exception.found == "rate is '200/d'"


def test_a_rate_at_which_hardly_anything_happens_is_refused(refused):
    """Percentiles of three transactions tell nothing."""
    error = refused(question, settings={"rate": "1/s"})

    assert "fewer than 10 transactions begin in 1 s" in error.found and error.next_step == "--duration 10s"


def test_a_rate_is_kept_within_a_twentieth():
    """Less is another load."""
    assert kept(200, 190).ok and not kept(200, 189.9).ok
    assert kept(200, 151.25).doubt == "the load kept 200/s: expected at least 190/s begun, found 151.25/s"


def test_a_rate_by_the_minute_has_no_transaction_more_for_its_fractions():
    """A third of a second is no exact number."""
    assert (planned(per_second("100/m"), 3), planned(per_second("12000/m"), 3), planned(0.5, 3)) == (5, 600, 2)


@pytest.mark.parametrize("workload", ["inserts", "oltp_point_select"])
def test_each_case_is_loaded_at_its_rate(workload):
    """The published inserts, too; the clients share it."""
    found = experiments.asked(question({"rate": ["200/s", "24000/m"]}, settings={}, workload=workload))
    loads: list[Any] = [found.workload(case, found.preset("ask")) for case in found.cases]

    assert [load.rate for load in loads] == [200, 400]
    assert all(isinstance(load, TimedScript) and load.seconds == 1 for load in loads)


def test_with_a_rate_the_effects_are_those_on_the_latency():
    """The throughput is what was asked for."""
    found = experiments.asked(question({"sync_binlog": ["0", "1"]}, workload="oltp_read_write"))

    assert [claim.id for claim in found.claims] == ["p50:sync_binlog=1"]
    assert found.claims[0].sentence.startswith("the transaction p50 with sync_binlog=1 as a share of that with")


# --- percentiles ------------------------------------------------------------------------------------------------------


def test_percentiles_are_those_of_all_latencies_of_all_rounds_together():
    """A round of few transactions has no 99.9th percentile of its own; several together have one."""
    rounds = [
        Measurement(engine="mariadb", round=n, case="a", samples={"latency_ms": [1.0] * 499 + [float(n)]})
        for n in (1, 2)
    ]

    assert p999([1.0] * (FEWEST_FOR_P999 - 1)) is None and p999([1.0] * FEWEST_FOR_P999) == 1
    assert pooled(rounds[:1]).keys() == {"min_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms"}
    assert pooled(rounds)["p99.9_ms"] == pytest.approx(1, abs=0.01) and pooled(rounds)["max_ms"] == 2
    assert pooled([]) == {}


def test_the_table_has_percentiles_of_all_rounds_together_and_no_means_of_rounds(ran):
    """A mean of the percentiles of short rounds would be no percentile of anything."""
    summary, record, _ = ran(experiments.asked(question({"sync_binlog": ["0", "1"]}, settings={})), preset="ask")
    case = summary.cases[0]
    taken = [ms for each in record.quiet(case.engine, case.name).values() for ms in each.samples["latency_ms"]]

    _, *latencies, _ = wording.of_a_case(case)
    assert latencies == pytest.approx([min(taken), *np.quantile(taken, [0.5, 0.95, 0.99])])
    assert latencies[-1] != pytest.approx(case.figures["latency_p99_ms"].value, rel=1e-4)


def test_a_claim_may_be_about_the_rarest_latencies():
    """Its name has a dot."""
    ((_, relation),) = parse_claim("p99.9[clients=16] / p99.9[clients=4] <= 2.5", question())

    sixteen, four = (Figure(f"clients={n}", "latency_p999_ms") for n in (16, 4))
    assert relation == (sixteen / four <= 2.5)


# --- in a model of a lab ----------------------------------------------------------------------------------------------


def told(summary) -> str:
    written = io.StringIO()
    Console(file=written, width=200).print(terminal.render(summary))
    return written.getvalue()


def test_a_slower_link_raises_the_latency_at_the_same_rate(ran):
    """With enough clients the rate is kept, so there is no answer about the throughput."""
    asked = question({"rtt": ["10ms", "40ms"]}, settings={"rate": "100/s", "clients": "16"})
    summary, record, _ = ran(experiments.asked(asked), preset="ask", commit_ms=0.6)
    (effect,) = summary.effects

    assert summary.verdict == "AS_EXPECTED", summary.claims
    assert effect.sentence.startswith("rtt=40ms raises the commit p50 by ") and "throughput" not in effect.sentence
    assert 3 < effect.latency_p50_ratio.low < effect.latency_p50_ratio.high < 5
    assert effect.throughput_ratio is None and 25 < effect.latency_p99_difference_ms.low
    assert all(m.figures["rate_achieved"] == 100 for m in record.measurements)
    assert " commits/s " in told(summary) and " p99.9 ms  max ms " in told(summary)


def test_a_rate_that_is_not_kept_is_told_and_not_a_lower_one(ran):
    """One client that waits 40 ms for each commit makes 25 of them a second."""
    asked = question({"rate": ["20/s", "100/s"]}, settings={"rtt": "40ms"})
    summary, _record, _ = ran(experiments.asked(asked), preset="ask")
    (effect,) = summary.effects

    assert summary.verdict == "UNKNOWN" and not effect.known
    assert effect.sentence.startswith("rate=100/s: not known; rate=100/s cannot keep 100/s (2")
    assert any("the load kept 100/s" in doubt for case in summary.cases for doubt in case.doubts)


def test_an_own_load_makes_transactions_and_not_commits(ran):
    """Some of them, or all, may only read."""
    asked = structs.replace(question(workload="oltp_point_select"), settings={})
    summary, _, _ = ran(experiments.asked(asked), preset="ask")

    assert summary.counts == "transaction" and "commit" not in told(summary)
    assert "p50 ÷ RTT" in told(summary) and "transactions/s" in told(summary)


def test_a_recorded_question_with_a_rate_is_judged_again(ran):
    """By the record alone."""
    summary, record, _ = ran(experiments.asked(question()), preset="ask")

    assert experiments.of(record).asked.settings == {"rate": "200/s"}
    assert [claim.id for claim in experiments.of(record).claims] == [row.id for row in summary.claims]
