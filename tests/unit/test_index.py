"""Does the page of all runs list each run, and draw the trend of each claim?"""

import re

import pytest
from click.testing import CliRunner
from replication_lab import cli
from replication_lab import runs as running
from replication_lab.model.drill.drill_result import judge
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.report import index, summarise
from replication_lab.report.index import IndexedRun
from replication_lab.report.summary import encode

from tests.unit.synthetic import experiment, record
from tests.unit.synthetic_drill import HISTORY, evidence, summed_up
from tests.unit.synthetic_runs import tiny
from tests.unit.valid_page import check


@pytest.fixture(scope="module")
def summaries() -> list[IndexedRun]:
    """Return three runs of an experiment, one of drills, one that was never reported."""
    found = [encode(summarise(experiment(), record(rounds))) for rounds in (3, 4, 5)]
    drills = encode(summed_up(judge(evidence(), HISTORY)))
    runs = [IndexedRun(f"2026112{at}-120000-semisync_wan", index.decode(one)) for at, one in enumerate(found)]
    return [
        *runs,
        IndexedRun("20261124-120000-drill-galera", index.decode(drills)),
        IndexedRun("20261125-120000-killed", None),
    ]


def test_the_page_lists_every_run_the_latest_first(summaries):
    """With a link to its report; a run without a summary says how to write one. The page is valid."""
    html = index.render(summaries)

    check(html)
    rows = re.findall(r'<tr data-tone="(\w+)".*?<th scope="row">(?:<a href="([^"]+)")?', html, flags=re.DOTALL)
    assert [link for _, link in rows] == [
        "",
        "20261124-120000-drill-galera/report.html",
        "20261122-120000-semisync_wan/report.html",
        "20261121-120000-semisync_wan/report.html",
        "20261120-120000-semisync_wan/report.html",
    ]
    assert "./lab report 20261125-120000-killed" in html
    assert "drills of galera" in html and "2 HOLDS" in html


def test_a_trend_has_a_marker_for_each_run(summaries):
    """Its shape is that of the verdict; the oldest run is on the left."""
    found = list(index.trends(summaries))
    claims = [claim for claim in summaries[0].reported.claims if isinstance(claim.measured, float | int)]

    assert len(found) == len(claims)
    assert [name for name, _, _ in found[0].points] == [run.name for run in summaries[:3]]
    assert found[0].picture.count("<title>2026112") == 3


def test_runs_under_other_conditions_have_a_trend_of_their_own(summaries):
    """A claim at 40 ms and the one at 85 ms are two series, of one run each: no trend."""
    import msgspec

    other = msgspec.structs.replace(summaries[1].reported, conditions={"rtt": "40ms"})

    assert list(index.trends([summaries[0], IndexedRun("20261130-120000-semisync_wan", other)])) == []


@pytest.mark.parametrize("text", [b"", b"{", b'{"kind": "experiment"}'])
def test_a_summary_that_cannot_be_read_is_not_reported(text):
    """The run is listed all the same."""
    assert index.decode(text) is None
    assert "not reported" in index.render([IndexedRun("x", index.decode(text))])


def test_the_page_is_written_whenever_a_run_ends(fake_world, runs, brief):
    """Also with the report that is written again; `lab report --index` prints its path."""
    running.run(RunRequest(tiny(), ["mariadb"], "quick", 7), lambda _line: None, fake_world())
    page = runs / "index.html"
    assert "semisync_wan" in page.read_text()
    page.unlink()

    running.report("latest")
    assert page.is_file()
    said = CliRunner().invoke(cli.cli, ["report", "--index"], prog_name="lab")
    assert said.output == f"{page}\n"
