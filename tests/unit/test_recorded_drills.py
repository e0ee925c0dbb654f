"""Is a run of drills judged again, told and reported from its files alone, whatever ended it?"""

from datetime import datetime

import msgspec
import pytest
from click.testing import CliRunner
from replication_lab import cli
from replication_lab import runs as running
from replication_lab.model.core.event import End
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill import drill_result
from replication_lab.model.drill.drill_result import judge
from replication_lab.model.drill.history import Copy
from replication_lab.report.drill_text import text
from replication_lab.report.summary import encode as encode_summary
from replication_lab.runner import drill_set
from replication_lab.world import catalogue, journal

from tests.unit import synthetic
from tests.unit.synthetic_drill import HISTORY, evidence, junit_of, parsed, recorded, summed_up

# --- records ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def book(runs):
    yield from recorded(runs)


def results(book) -> list[drill_result.Result]:
    """Return the result of each drill."""
    return drill_set.results(*journal.read(book.folder))


def test_recorded_drills_are_judged_again_from_their_files(book):
    """The verdicts of the finished drill; the unfinished one, after a SIGKILL, is unknown."""
    first, second = results(book)

    assert {one.verdict for one in first.judgements} == {Verdict.HOLDS}
    assert first.figures["acknowledged"] == 10
    assert [one.verdict for one in second.judgements] == [Verdict.UNKNOWN]
    assert "killed" in second.judgements[0].reason


def test_a_record_that_was_never_begun_is_not_the_latest(book):
    """A process that is killed at once leaves a file without a line."""
    empty = journal.Journal("drill-galera", now=lambda: datetime(9999, 12, 31))
    empty.close()

    assert journal.read("latest")[0] == book.folder
    assert journal.names() == [book.folder.name]


def test_the_record_says_why_it_stops(book):
    """Interrupted, crashed, given up: every drill that was not done says so."""
    book.write(End(why="interrupted", reason="SIGTERM"))

    assert "interrupted by SIGTERM" in running.judge("latest").drills[1].doubts[0]


def test_a_record_that_cannot_be_read_is_refused(book, refused):
    """A bad line by its number, a missing record with those that are there; a torn last line is none."""
    record = book.folder / journal.RECORD
    record.write_bytes(record.read_bytes() + b'{"event": "evid')
    assert len(running.judge(book.folder).drills) == 2
    record.write_bytes(b"{}\n{}\n")
    assert "line 1 of the record" in refused(running.judge, book.folder).found
    assert book.folder.name in refused(running.judge, "gone").expected


def test_a_ledger_that_is_damaged_makes_its_drill_unknown(book):
    """The record alone is no evidence of what clients saw."""
    journal.ledger(book.folder, "first").write_bytes(b"nonsense\n\n")

    assert results(book)[0].judgements[0].verdict is Verdict.UNKNOWN


def test_results_read_as_text_and_as_data(book):
    """Verdicts, what clients saw, the doubts; JSON without objects that only Python knows."""
    summary = running.judge(book.folder)
    said = text(summary)

    assert "  0 rows lost · writes back after 0.1 s · as expected" in said and "HOLDS         nothing is lost" in said
    assert "10 acknowledged, 0 failed, 0 unknown" in said
    assert "DOUBT         it was not run: the run was killed" in said
    assert msgspec.json.decode(encode_summary(summary))["drills"][0]["exit_code"] == 0


def test_a_changed_verdict_stands_out():
    """It says what had been expected."""
    assert "REFUTED (expected HOLDS)" in text(summed_up(judge(evidence(copies=[Copy("node1", [(0, 8)])]), HISTORY)))


def test_the_command_judges_a_record_with_its_exit_status(book):
    """3 where a drill is unknown; the same as data."""
    said = CliRunner().invoke(cli.cli, ["report", str(book.folder), "--format", "text"])
    data = CliRunner().invoke(cli.cli, ["report", "latest", "--json"])

    assert (said.exit_code, data.exit_code) == (3, 3)
    assert "HOLDS" in said.output
    assert [one["name"] for one in msgspec.json.decode(data.output)["drills"]] == ["first", "second"]


def test_the_command_without_a_topology_lists_the_drills():
    """As text and as data, as `lab list drills` does."""
    said = CliRunner().invoke(cli.cli, ["drill"])
    data = CliRunner().invoke(cli.cli, ["drill", "--json"])

    assert (said.exit_code, data.exit_code) == (0, 0)
    assert "kill-node" in said.output
    listed = {(row["topology"], row["drill"]) for row in msgspec.json.decode(data.output)}
    assert {name for topology, name in listed if topology == "galera"} == set(catalogue.drills("galera"))


def test_a_line_that_nobody_knows_makes_every_drill_unknown(book):
    """A newer version wrote it, and it may speak against the figures."""
    record = book.folder / journal.RECORD
    record.write_bytes(record.read_bytes() + b'{"event":"earthquake"}\n')
    first, _ = running.judge(book.folder).drills

    assert {row.verdict for row in first.expectations} == {Verdict.UNKNOWN}
    assert "'earthquake'" in first.doubts[0]


# --- JUnit and the page -----------------------------------------------------------------------------------------------


def test_junit_has_a_case_for_each_drill_and_expectation(book):
    """What holds passes; UNKNOWN is an error, as of an experiment."""
    xml = junit_of(running.judge(book.folder))

    assert (xml.tests, xml.failures, xml.errors) == (3, 0, 1)
    assert {case.classname for suite in xml for case in suite} == {"drill.galera.first", "drill.galera.second"}


@pytest.mark.parametrize(
    ("result", "failures", "errors"),
    [
        pytest.param(judge(evidence(copies=[Copy("node1", [(0, 8)])]), HISTORY), 1, 0, id="changed"),
        pytest.param(judge(evidence(doubts=["no proof"]), HISTORY), 0, 2, id="unknown"),
        pytest.param(
            drill_result.not_done(msgspec.structs.replace(parsed(), expected=[]), "killed"), 0, 2, id="nothing expected"
        ),
    ],
)
def test_junit_of_drills_is_never_green_for_what_is_not(result, failures, errors):
    """A changed verdict fails; UNKNOWN is an error, and so is a drill of which nothing can be said."""
    xml = junit_of(summed_up(result))

    assert (xml.failures, xml.errors) == (failures, errors)


def test_junit_of_no_drill_at_all_is_an_error():
    """Nothing was judged."""
    assert junit_of(summed_up()).errors == 1 and summed_up().exit_code == 3


def test_the_report_of_drills_can_be_written_again(book, monkeypatch):
    """`lab report` writes the same three files; the page needs nothing else, and what was said is no markup."""
    monkeypatch.chdir(book.folder.parent)
    book.write(End(why="crashed", reason="<script>alert(1)</script>"))
    said = CliRunner().invoke(cli.cli, ["report", "latest"])
    page = (book.folder / "report.html").read_text()

    assert said.exit_code == 2 and "HOLDS" in said.stdout
    written = [line.rpartition("/")[2] for line in said.stderr.split("written: ")[1:]]
    assert [name.strip() for name in written] == ["summary.json", "junit.xml", "report.html"]
    assert "nothing is lost" in page and "node1-node3 is cut" in page and "10 acknowledged" in page
    assert page.index("the run crashed") < page.index("nothing is lost")
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page


# --- records of older versions ----------------------------------------------------------------------------------------


def test_the_record_of_older_drills_is_refused_by_its_name(book, refused):
    """It was called drill.jsonl; the way on is named."""
    (book.folder / journal.RECORD).rename(book.folder / "drill.jsonl")
    error = refused(running.judge, book.folder)

    assert "drill.jsonl of an older version" in error.found and "./lab list drills" in error.next_step
    assert journal.names() == []


def test_a_run_that_is_nowhere_names_the_runs_of_both_kinds(book, refused):
    """One search, one error."""
    drills = book.folder.name
    journal.Journal("semisync_wan").write(synthetic.run())

    assert drills in refused(running.judge, "yesterday").expected
    assert "semisync_wan" in refused(running.report, "yesterday").expected
