"""Is an experiment at another round trip that experiment, said to be so, and compared with nothing published?"""

import json
from dataclasses import replace
from io import StringIO

import pytest
from click.testing import CliRunner
from replication_lab import cli, experiments
from replication_lab import runs as running
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.experiment import Experiment, Preset
from replication_lab.model.experiment.quantities import throughput
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.record.record import Record, written
from replication_lab.report import terminal
from replication_lab.runs import write_report
from replication_lab.world import catalogue
from replication_lab.world.docker import engine
from rich.console import Console

CHANGED = "conditions changed: rtt 40ms; nothing is compared with published figures, and only laws are judged"
ACROSS_A_WAN = [name for name in experiments.names() if experiments.load(name).at]


def texts(experiment: Experiment) -> list[str]:
    """Return everything that names a distance to a reader."""
    toxics = [str([toxic.name for toxic in case.toxics.values()]) for case in experiment.cases]
    cases = [text for case in experiment.cases for text in (case.name, case.about, str(case.settings))]
    claims = [text for claim in experiment.claims for text in (claim.id, claim.sentence, claim.relation.text)]
    presets = [name for preset in experiment.presets.values() for name in preset.cases]
    curves = [
        text
        for curves in experiment.curves
        for text in (curves.title, *(panel.title for panel in curves.panels), *curves.cases)
    ]
    return [experiment.question, *toxics, *cases, *claims, *presets, *curves]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["semisync_wan", "--rtt", "40"], "--rtt '40': 40 has no unit"),
        (["semisync_wan", "--rtt", "wan-200ms"], "--rtt 'wan-200ms' cannot be read"),
        (["semisync_wan", "--rtt", "9ms"], "a round trip of 9 ms"),
        (["semisync_wan", "--rtt", "501ms"], "expected: 10 to 500 ms"),
        (["semisync_wan", "--rtt", "40ms±5ms"], "is more than a round trip"),
        (["semisync_wan", "--rtt", "40ms,down=10ms,up=30ms"], "is more than a round trip"),
        (["semisync_wan", "--rtt", "20mbit"], "is more than a round trip"),
        (["semisync_wan", "--rtt", "40ms+20mbit"], "is more than a round trip"),
        (["raid_replica", "--rtt", "40ms"], "expected: one of galera_vs_semisync, semisync_wan"),
        (["raid_replica", "--rtt", "40ms"], "next: ./lab run raid_replica"),
        (
            ["semisync_wan", "--rtt", "40ms", "--engine", "mysql-5.7"],
            "next: ./lab run semisync_wan --rtt 40ms --engine",
        ),
        (["question.yaml", "--rtt", "40ms"], "--rtt cannot be used with the file of a question"),
    ],
)
def test_a_bad_round_trip_is_refused_before_anything_starts(monkeypatch, arguments, said):
    """What is no round trip, one that the laws do not fit, and an experiment that has none to choose."""
    monkeypatch.setattr(engine, "ensure", lambda: pytest.fail("the engine was touched"))

    assert said in str(CliRunner().invoke(cli.cli, ["run", *arguments], prog_name="lab").exception)


def test_an_experiment_without_a_wan_has_no_round_trip_to_choose(refused):
    """Also where nobody looked the experiment up by its name."""
    assert (
        "the round trips of raid_replica are fixed" in refused(experiments.load("raid_replica").with_rtt, "40ms").found
    )


@pytest.mark.parametrize(
    ("link", "toxic"), [("source-replica", "40"), ("source-repica", "40ms"), ("source-replica", "x")]
)
def test_a_case_with_a_bad_condition_is_refused_before_its_lab_starts(fake_world, runs, refused, link, toxic):
    """No folder, no lab."""
    case = Case("far", "a case", {"toxics": {link: toxic}})
    claim = Claim("a-claim", "a sentence", throughput("far") >= 1)
    world, found = fake_world(), Experiment("x", "?", "semisync", (case,), (claim,), {"quick": Preset("quick")})
    error = refused(lambda: running.run(RunRequest(found, ["mariadb"], "quick", 7), print, world))

    assert link in error.found or "toxic of case far in x" in error.found
    assert world.came_up == [] and not runs.exists()


# --- what it becomes --------------------------------------------------------------------------------------------------


def test_the_experiments_across_a_wan_have_a_round_trip_to_choose():
    """Those whose question is about one distance."""
    assert ACROSS_A_WAN == ["galera_vs_semisync", "semisync_wan"]


@pytest.mark.parametrize("name", ACROSS_A_WAN)
@pytest.mark.parametrize("text", ["40ms", "0.2s"])
def test_nothing_of_the_published_distance_is_left(name, text):
    """Names, sentences and toxics say the new one; the same cases and claims are there."""
    published = experiments.load(name)
    changed = experiments.load(name, text)
    trip = catalogue.toxic(text).round_trip_ms

    assert [each for each in texts(changed) if "85" in each] == []
    assert sum(f"{trip}ms" in each for each in texts(changed)) == sum("85ms" in each for each in texts(published))
    assert len(changed.cases) == len(published.cases) and len(changed.claims) == len(published.claims)
    assert {toxic.round_trip_ms for case in changed.cases for toxic in case.toxics.values()} <= {0, trip}
    assert changed.conditions == {"rtt": f"{trip}ms"}


@pytest.mark.parametrize("name", ACROSS_A_WAN)
def test_the_published_round_trip_changes_nothing(name):
    """85 ms are the published conditions, however they are written."""
    published = experiments.load(name)

    assert published.conditions == {}
    assert experiments.load(name, "85ms") is published is experiments.load(name, "0.085s")


@pytest.mark.parametrize("name", ACROSS_A_WAN)
def test_only_verdicts_of_laws_are_still_expected(name):
    """Each with the distance at which it is known; no published figure is left."""
    published, changed = experiments.load(name), experiments.load(name, "40ms")
    laws = {claim.id for claim in changed.claims if claim.law}

    assert laws and changed.data.published.rows == [] and changed.data.claims == {}
    source = published.data.published.source
    assert changed.data.published.source == f"not compared, since conditions changed: {source}"
    assert {known.claim for known in changed.data.expected} == {
        known.claim for known in published.data.expected if known.claim in laws
    }
    assert all(known.because.startswith("known at 85 ms: ") for known in changed.data.expected)


@pytest.mark.parametrize("name", ACROSS_A_WAN)
def test_a_claim_with_a_published_figure_beside_a_bound_of_its_own_is_no_law(name):
    """A law's relation is about a measured round trip, or about what must never happen, or must."""
    for claim in experiments.load(name).claims:
        about_a_trip = "rtt_" in claim.relation.text
        assert not claim.law or about_a_trip or not hasattr(claim.relation, "quantity"), claim.id


def test_longer_round_trips_are_measured_for_longer():
    """So that each client commits as often; shorter ones are measured as the published one is."""
    sizes = {text: experiments.load("semisync_wan", text).preset("quick").sizes for text in ("40ms", "85ms", "170ms")}

    assert [sizes[text]["far_seconds"] for text in sizes] == [2, 2, 4]
    assert experiments.load("galera_vs_semisync", "170ms").preset("full").sizes["most_seconds"] == 120


# --- a run ------------------------------------------------------------------------------------------------------------


AT_40MS = experiments.load("semisync_wan", "40ms")
# What real engines refute is data, and left out.
LAWFUL_AT_40MS = replace(AT_40MS, data=AT_40MS.data.under_other_conditions([], ""))


@pytest.fixture
def at_40ms(undisturbed):
    """Run semisync_wan at 40 ms in a world that keeps the laws, once for all tests: (summary, record)."""
    return undisturbed(LAWFUL_AT_40MS, preset="least", commit_ms=0.6)


def test_the_record_and_the_summary_say_what_changed(at_40ms):
    """The laws hold, each other claim is not judged and why, and no figure stands beside a published one."""
    summary, record = at_40ms
    laws = {claim.id for claim in experiments.load("semisync_wan").claims if claim.law}

    assert record.run.conditions == summary.conditions == {"rtt": "40ms"}
    assert summary.exit_code == 0 and {claim.verdict for claim in summary.claims} == {Verdict.HOLDS}
    assert {claim.id for claim in summary.claims} <= {each.replace("85ms", "40ms") for each in laws}
    told = {left.claim: left.reason for left in summary.not_judged}
    assert told["async-costs-little"] == "not compared: conditions changed (rtt 40ms)"
    assert {claim.published for claim in summary.claims} == {None}
    assert {figure.published for case in summary.cases for figure in case.figures.values()} == {None}
    assert {(fault.toxic, fault.asked, fault.seen) for fault in summary.faults} == {("40ms", 40, True)}


def test_the_reports_say_it_first(at_40ms, tmp_path):
    """In the terminal and on the page, before any figure."""
    summary, record = at_40ms
    page = StringIO()
    Console(file=page, width=200).print(terminal.render(summary))
    write_report(tmp_path, summary, record, {})
    html = (tmp_path / "report.html").read_text()

    assert CHANGED in page.getvalue() and CHANGED in html
    assert page.getvalue().index(CHANGED) < page.getvalue().index("mariadb (")
    assert html.index(CHANGED) < html.index("Claims</h2>")
    assert json.loads((tmp_path / "summary.json").read_text())["conditions"] == {"rtt": "40ms"}


def test_a_record_is_judged_again_under_its_own_conditions(ran):
    """The record alone says them; without them no case of the published distance would be found."""
    summary, _, _ = ran(LAWFUL_AT_40MS, preset="least", commit_ms=0.6)
    again = running.judge("latest")

    assert again.conditions == {"rtt": "40ms"}
    assert [(claim.id, claim.verdict) for claim in again.claims] == [(c.id, c.verdict) for c in summary.claims]
    assert [left.claim for left in again.not_judged] == [left.claim for left in summary.not_judged]


def test_an_older_record_has_no_conditions(at_40ms):
    """It is of the published ones."""
    _, record = at_40ms
    line = json.loads(next(written([record.run])))
    line["schema"] = 6
    del line["conditions"]

    assert Record.parse([json.dumps(line).encode()]).run.conditions == {}
