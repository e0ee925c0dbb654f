"""Does the report say what the record comes to, in every rendering?"""

import dataclasses
import io
import json
import re
import stat
from pathlib import Path

import msgspec
import pytest
from junitparser import JUnitXml
from replication_lab import report
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.event import End
from replication_lab.model.core.noise import Noise
from replication_lab.model.experiment.quantities import throughput
from replication_lab.model.record.record import Record
from replication_lab.report import charts, junit, markdown, page, summarise, terminal, wording
from replication_lab.report.rows import DrillRow, DrillsSummary, ExperimentSummary
from replication_lab.report.summary import encode, schema
from replication_lab.runs import write_report
from rich.console import Console

from tests.unit.synthetic import DATA, claim, experiment, lab, record, replaced, run

DOCS = Path(report.__file__).parents[3] / "docs"
CHANGED = claim(throughput("async-85ms") / throughput("none") >= 0.99)
OPEN = claim(throughput("async-85ms") / throughput("none") >= 0.895)


def summary_of(*claims, of=None) -> ExperimentSummary:
    return summarise(experiment(claims, data="{}") if claims else experiment(), of or record(4))


def told(summary: ExperimentSummary, width: int = 100) -> str:
    """Return what a pipe of this width gets."""
    text = io.StringIO()
    Console(file=text, width=width).print(terminal.render(summary))
    return text.getvalue()


@pytest.fixture(scope="module")
def whole() -> tuple[ExperimentSummary, Record]:
    """Return a run on two engines with one noisy round, and with a case that one engine does not support."""
    ran = replaced(record(4, ("mariadb", "mysql-5.5")), "async-85ms", 2, noise=Noise(quiet=False, why="steal 0.3"))
    ran = ran.plus(lab("mysql-5.5", not_applicable={"after-commit-85ms-1": "no wait point"}))
    return summarise(experiment(), ran), ran


def test_a_report_says_how_many_verdicts_may_be_wrong_by_chance():
    """The risk is that of each claim; an open one is not wrong, and a run without a decided one has none."""
    holds = claim(throughput("none") / throughput("async-85ms") >= 0.5)
    claims = [dataclasses.replace(each, id=f"claim-{at}") for at, each in enumerate((holds, CHANGED, OPEN))]
    found, nothing = summary_of(*claims), summary_of(OPEN)
    line = "2 verdicts by intervals, each wrong with a risk of at most 5%: expect at most 0.1 wrong ones"

    assert (found.by_interval, found.expected_wrong) == (2, 0.1)
    assert line in " ".join(told(found).split()) and line in markdown.text(found, "a run")
    assert line.capitalize() in page.render(found, record(4))
    assert nothing.by_interval == 0 and "by intervals" not in told(nothing)


def test_a_summary_reads_as_it_was_written(whole):
    """summary.json decodes to the summary it was made of."""
    assert msgspec.json.decode(encode(whole[0]), type=ExperimentSummary) == whole[0]


def test_the_summary_holds_what_is_documented(whole):
    """A run's summary names experiment, preset, engines, environment, faults, cases and claims with all their parts."""
    found = json.loads(encode(whole[0]))

    assert (found["schema"], found["experiment"], found["preset"]) == (4, "semisync_wan", "quick")
    assert found["environment"]["labs"][0]["images"]["source"].startswith("sha256:")
    assert found["environment"]["noise"]["noisy"] == 2
    assert {"asked", "before", "during", "after", "seen"} <= found["faults"][0].keys()
    assert {
        "sentence",
        "verdict",
        "expected",
        "because",
        "published",
        "predicted",
        "measured",
        "interval",
        "reason",
        "engine",
    } <= found["claims"][0].keys()


def test_the_documented_schema_is_that_of_the_summary():
    """docs/summary.schema.json is what the summary's own types say; the message tells how to write it anew."""
    assert (DOCS / "summary.schema.json").read_bytes() == schema(), (
        "write it anew: .venv/bin/python -c "
        "'from replication_lab.report.summary import schema; print(end=schema().decode())' "
        "> docs/summary.schema.json"
    )


def test_every_part_of_the_summary_is_explained():
    """docs/summary.md names every field at the top of the summary."""
    text = (DOCS / "summary.md").read_text()

    fields = {*ExperimentSummary.__struct_fields__, *DrillsSummary.__struct_fields__, *DrillRow.__struct_fields__}

    assert [field for field in sorted(fields) if f"`{field}`" not in text] == []


def test_figures_stand_beside_what_was_published_and_predicted(whole):
    """A case's throughput comes with its interval, the literature's figure and the law's."""
    row = next(c for c in whole[0].cases if c.name == "after-sync-85ms-1").figures["throughput"]

    assert row.low < row.value < row.high
    assert row.published == 11.51
    assert row.ratio_to_published == pytest.approx(row.value / 11.51)
    assert row.ratio_to_predicted == pytest.approx(0.985, abs=0.01)


def test_a_published_figure_that_was_not_measured_still_shows():
    """The literature's row does not vanish because the lab has no such figure."""
    data = DATA.replace("figure: latency_p50_ms", "figure: latency_p99_ms")
    found = summarise(experiment(data=data), record(3))

    row = next(c for c in found.cases if c.name == "after-sync-85ms-1").figures["latency_p99_ms"]

    assert (row.value, row.published, row.ratio_to_published) == (None, 86.3, None)


def test_a_single_round_has_a_value_but_no_interval():
    """One round shows what was measured and claims no precision."""
    row = summary_of(of=record(1)).cases[0].figures["throughput"]

    assert row.value is not None
    assert (row.low, row.high) == (None, None)


@pytest.mark.parametrize(
    ("summary", "verdict", "code"),
    [
        (summary_of(claim(throughput("none") >= 1)), "AS_EXPECTED", 0),
        (summary_of(CHANGED), "CHANGED", 1),
        (summary_of(OPEN), "UNKNOWN", 3),
        (summary_of(of=record(4, ("mariadb",), End(why="crashed", reason="disk full"))), "CRASHED", 2),
        (summary_of(of=Record([run()])), "UNKNOWN", 3),
    ],
)
def test_the_overall_verdict_goes_with_the_exit_code(summary, verdict, code):
    """As expected 0, changed 1, crashed 2, unknown 3; a record without measurements is unknown."""
    assert (summary.verdict, summary.exit_code) == (verdict, code)


def test_the_terminal_shows_figures_claims_and_outcome(whole):
    """In a pipe of 100 columns no line is longer, nothing is coloured, and the essentials are there."""
    text = told(whole[0])

    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text
    for part in (
        "What does a commit cost",
        "published: 2013 write-up",
        "mysql-5.5",
        "REFUTED as expected",
        "REFUTED, expected",
        "with AFTER_SYNC",
        "not judged: mysql-5.5",
        "no wait point",
        "(exit code 1)",
    ):
        assert part in re.sub(r"\s+", " ", text)


def test_unknown_is_told_with_its_reason():
    """The reason stands beneath the claim."""
    text = told(summary_of(OPEN))

    assert re.search(r"UNKNOWN +a sentence", text)
    assert "straddles 0.895" in text


@pytest.mark.parametrize(
    ("of", "warning"),
    [
        (record(2, ("mariadb",), End(why="interrupted", reason="SIGTERM")), "interrupted by SIGTERM"),
        (record(2, ("mariadb",), End(why="crashed", reason="disk full")), "crashed: disk full"),
        (Record(record(2).events[:-1]), "the record has no end"),
    ],
)
def test_a_run_that_broke_off_warns_before_the_figures(of, warning):
    """The reader learns of a crash, an interruption and a kill before reading any figure."""
    text = told(summary_of(of=of))

    assert text.index(warning) < text.index("throughput")


def test_junit_has_a_case_per_claim_and_engine(whole):
    """Holding claims pass, claims left out are skipped, changed ones fail, undecided ones are errors."""
    xml = JUnitXml.fromstring(junit.render(whole[0]))

    assert len(xml) == 2
    assert sum(suite.tests for suite in xml) == len(whole[0].claims) + 1
    assert sum(suite.failures for suite in xml) == sum(c.changed for c in whole[0].claims) == 1
    assert sum(suite.errors for suite in xml) == sum(c.verdict == "UNKNOWN" for c in whole[0].claims)
    assert sum(suite.skipped for suite in xml) == 1


@pytest.mark.parametrize(
    ("summary", "failures", "errors"),
    [
        (summary_of(CHANGED), 1, 0),
        (summary_of(OPEN), 0, 1),
        (summary_of(OPEN, of=Record([run()])), 0, 1),
        (
            summary_of(claim(throughput("none") >= 1), of=record(4, ("mariadb",), End(why="crashed", reason="x"))),
            0,
            1,
        ),
    ],
)
def test_junit_is_never_green_for_what_is_not(summary, failures, errors):
    """A changed verdict fails; UNKNOWN, nothing measured and a crash are errors."""
    xml = JUnitXml.fromstring(junit.render(summary))

    assert (xml.failures, xml.errors) == (failures, errors)


def test_files_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    """When a write fails the old file stays, and nothing half-written lies beside it."""
    (tmp_path / "summary.json").write_text("old")
    monkeypatch.setattr(Path, "replace", _no_space)

    with pytest.raises(LabError, match=r"summary\.json cannot be written: no space"):
        write_report(tmp_path, summary_of(OPEN), record(3), {})

    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
    assert (tmp_path / "summary.json").read_text() == "old"


def test_a_chart_that_fails_costs_no_verdict(tmp_path, monkeypatch):
    """summary.json and junit.xml are there before anything is drawn."""
    monkeypatch.setattr(charts, "of_engine", _no_space)

    with pytest.raises(OSError, match="no space"):
        write_report(tmp_path, summary_of(OPEN), record(3), {})

    assert sorted(path.name for path in tmp_path.iterdir()) == ["junit.xml", "summary.json"]
    assert stat.S_ISREG((tmp_path / "summary.json").stat().st_mode)


def _no_space(*_):
    raise OSError("no space left")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (50, "50"),
        (1066.8, "1067"),
        (11.514, "11.51"),
        (0.978, "0.9780"),
        (0.0001234, "0.0001234"),
    ],
)
def test_figures_are_told_with_four_digits(value, text):
    """Large and small figures are as exact as a reader needs them."""
    assert wording.number(value) == text


def test_what_was_left_out_is_told_once_a_reason():
    """Twenty claims that a preset leaves out are one line in the terminal."""
    whole = experiment()
    left = {case.name: "the preset brief does not contain it" for case in whole.cases[:3]}
    summary = summarise(whole, Record([run(), lab(not_applicable=left)]))
    lines = wording.not_judged(summary)

    assert len(lines) == 1
    assert lines[0].endswith(": the preset brief does not contain it") and "async-costs-little" in lines[0]


def test_all_labs_of_a_run_are_told():
    """A run on two topologies shows what served each."""
    from msgspec import structs

    summary = summarise(experiment(), Record([run(), lab(), structs.replace(lab(), topology="galera")]))

    assert [each.topology for each in summary.environment.labs] == ["semisync", "galera"]
