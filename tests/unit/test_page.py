"""Is the page of a run valid, complete without scripts, and safe, and does the answer come first?"""

import re

import html5lib
import msgspec
import pytest
from replication_lab.model.comparing.digest import digest
from replication_lab.model.core.noise import Noise
from replication_lab.model.drill.drill_result import judge, not_done
from replication_lab.model.drill.history import Copy
from replication_lab.model.record.record import Record
from replication_lab.report import answers, compared, page, summarise
from replication_lab.report import evidence as evidence_of
from replication_lab.report.rows import ExperimentSummary
from replication_lab.runner import described

from tests.unit.synthetic import experiment, lab, record, replaced, run, toxic
from tests.unit.synthetic_digests import compare
from tests.unit.synthetic_drill import HISTORY, evidence, parsed, summed_up
from tests.unit.valid_page import check, without_assets


@pytest.fixture(scope="module")
def whole() -> tuple[ExperimentSummary, Record]:
    """Return a run on two engines with one noisy round, and with a case that one engine does not support."""
    ran = replaced(record(4, ("mariadb", "mysql-5.5")), "async-85ms", 2, noise=Noise(quiet=False, why="steal 0.3"))
    ran = ran.plus(lab("mysql-5.5", not_applicable={"after-commit-85ms-1": "no wait point"}))
    return summarise(experiment(), ran), ran


@pytest.fixture(scope="module")
def html(whole) -> str:
    return page.render(*whole)


@pytest.fixture(scope="module")
def doubtful() -> str:
    """Return the page of a run with markup in a doubt and a fault that was not seen."""
    ran = replaced(
        record(1), "after-sync-85ms-1", 1, faults=[toxic(seen=False, during=0.4)], doubts=["<script>alert(1)</script>"]
    )
    return page.render(summarise(experiment(), ran), ran)


@pytest.fixture(scope="module")
def drills() -> str:
    """Return the page of three drills: as expected, with a loss that was not expected, and one that was not done."""
    named = [msgspec.structs.replace(parsed(), name=name) for name in ("good", "losing", "never")]
    good = judge(evidence(drill=named[0]), HISTORY)
    losing = judge(evidence(drill=named[1], copies=[Copy("node1", [(0, 7)])]), HISTORY)
    summary = summed_up(good, losing, not_done(named[2], "it was not run"))
    return page.render(summary, Record(), {result.ledger: result.timeline for result in (good, losing)})


def test_every_page_is_valid(html, doubtful, drills):
    """By a strict parser; ids are there once, links lead somewhere, tables and pictures have names."""
    for each in (html, doubtful, drills, page.render(summarise(experiment(), Record([run()])), Record([run()]))):
        check(each)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param('<p id="a"></p><p id="a"></p>', id="an id twice"),
        pytest.param('<a href="#nowhere">x</a>', id="a link to nothing"),
        pytest.param("<table><tr><td>1</td></tr></table>", id="a table without a caption"),
        pytest.param("<svg viewBox='0 0 1 1'></svg>", id="a picture without a name"),
        pytest.param("<div></p>", id="tags that do not fit"),
    ],
)
def test_the_check_finds_a_bad_page(bad):
    """Each guard fails for what it guards against."""
    text = f'<!doctype html><html lang="en"><head><title>t</title></head><body>{bad}</body></html>'
    with pytest.raises((AssertionError, html5lib.html5parser.ParseError)):
        check(text)


def test_the_page_fetches_nothing(html, drills):
    """No script, image, style sheet or font is loaded; links lead to the page itself and to the files beside it."""
    for each in (html, drills):
        given = re.findall(r'(?:href|src)="([^"]*)"', without_assets(each))
        files = {link for link in given if not link.startswith(("#", "data:text/csv"))}

        assert files <= {"record.jsonl", "summary.json", "junit.xml", "ledger-good.jsonl", "ledger-losing.jsonl"}
        assert re.findall(r"<link|<img|<iframe|@import|url\((?!#)", each) == []


def test_only_the_pages_own_scripts_may_run(html):
    """The policy names the digests of both, so a script that came in by a record would not run."""
    assert page.policy() in html.replace("&#39;", "'")
    assert page.policy().count("sha256-") == 2
    scripts = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    assert [f"'sha256-{page._digest(script)}'" in page.policy() for script in scripts] == [True, True]


def test_the_answer_comes_before_everything_else(html):
    """The question, the answer, what to distrust, the claims, then figures and evidence."""
    parts = ["<h1>", 'id="answer"', 'id="distrust"', 'id="claims"', 'id="figures"', 'id="evidence"', 'id="downloads"']
    assert [html.index(part) for part in parts] == sorted(html.index(part) for part in parts)


def test_text_from_the_record_cannot_become_markup(doubtful):
    """A doubt that holds markup is shown as text."""
    assert "<script>alert" not in doubtful
    assert "&lt;script&gt;alert" in doubtful


def test_faults_are_folded_unless_one_was_not_seen(html, doubtful):
    """The table of network conditions is unfolded when one of them was not seen to act."""
    folded = r"<details( open)?>\s*<summary>Network conditions"

    assert re.search(folded, html)[1] is None
    assert re.search(folded, doubtful)[1] == " open"


def test_a_run_without_a_quiet_round_has_a_page():
    """Figures that no round counts have no place on a log scale."""
    noisy = [msgspec.structs.replace(m, noise=Noise(quiet=False, why="steal 0.3")) for m in record(2).measurements]
    of = Record([*(e for e in record(2).events if e not in record(2).measurements), *noisy])

    assert "could not be decided" in page.render(summarise(experiment(), of), of)


def test_the_same_record_gives_the_same_bytes(whole, html):
    """Two reports can be compared byte by byte."""
    assert page.render(*whole) == html


def test_every_chart_has_a_picture_and_its_data(html):
    """Without scripts the picture is seen; with them the data are drawn."""
    plots = re.findall(r'<figure class="plot".*?</figure>', html, flags=re.DOTALL)

    assert plots
    assert all("<svg" in each and '<script type="application/json">{"x"' in each for each in plots)


def test_a_drill_shows_its_timeline_and_its_phases(drills):
    """With the fault as a band; a drill that was not done has neither."""
    good, losing, never = re.split(r'(?=<section class="card drill")', drills)[1:]

    for each in (good, losing):
        assert each.count('<figure class="plot"') == 2
        assert "cut on node3</text>" in each and "recovery" in each and "throughput" not in each
    assert "<figure" not in never and "it was not run" in never


# --- the answer -------------------------------------------------------------------------------------------------------


def test_the_answer_counts_the_verdicts_and_names_what_is_unexpected(whole):
    """In two sentences, what was measured first."""
    named, counted = answers.answer(whole[0])

    assert "1 has an unexpected verdict" in counted
    assert named.startswith("Not as expected: “") and "measured" in named


def test_an_answer_of_drills_tells_what_was_lost():
    """With the seconds of writes, and what is not known."""
    named = [msgspec.structs.replace(parsed(), name=name) for name in ("good", "losing", "never")]
    lost = evidence(drill=named[1], copies=[Copy("node1", [(0, 7)])])
    results = [judge(evidence(drill=named[0]), HISTORY), judge(lost, HISTORY), not_done(named[2], "killed")]
    told = answers.answer(summed_up(*results))

    assert told[0] == "No acknowledged row was lost in 1 of 2 drills; lost: 2 rows (1.1 s of writes) in losing."
    assert told[-1] == "Not evaluated: never."


def test_doubtful_drills_are_no_answer():
    """A loss of zero that nobody can trust is not told as one."""
    assert answers.answer(summed_up(judge(evidence(doubts=["no proof"]), HISTORY))) == ["No drill could be evaluated."]


def test_what_to_distrust_holds_every_doubt_once(whole):
    """Of the run, then of its cases; without any the page says what was verified."""
    told = answers.distrust(whole[0])

    assert any("noisy" in each for each in told) and len(told) == len(set(told))
    assert answers.distrust(summed_up(judge(evidence(), HISTORY))) == []
    assert answers.proved(summed_up(judge(evidence(), HISTORY))).startswith("1 of 1 proofs")


# --- a comparison -----------------------------------------------------------------------------------------------------


def test_a_comparison_is_a_page_of_the_same_form():
    """What is worse comes first, with its interval against what the margin allows; the page is valid."""
    old, new = (digest(name, experiment(), record(4)) for name in ("old", "new"))
    slow = new.engines["mariadb"].cases["none"]
    slow.figures["throughput"][:] = [value / 2 for value in slow.figures["throughput"]]
    html = compared.page_text(compare(old, new, 0.1), 0.1)
    rows = re.findall(r'<tr data-tone="(\w+)".*?<th scope="row">([\w-]+)', html, flags=re.DOTALL)

    check(html)
    assert "A figure is worse by more than 10%" in html
    assert rows[0] == ("bad", "none")
    assert "−50 % [" in html and 'class="mark bad"' in html


def test_an_answer_of_one_drill_counts_no_drills():
    """It lost rows, or it did not."""
    lost = judge(evidence(copies=[Copy("node1", [(0, 7)])]), HISTORY)

    assert answers.answer(summed_up(lost))[0] == "Acknowledged rows were lost: 2 rows (1.1 s of writes) in test."
    assert answers.answer(summed_up(judge(evidence(), HISTORY)))[0] == "No acknowledged row was lost."


# --- the environment --------------------------------------------------------------------------------------------------


def test_settings_that_were_set_are_told():
    """By the server's own word; a record without them says nothing about defaults."""
    ran = Record([run(), lab(changed={"sync_binlog": "0", "max_connections": "400"})])

    assert "2 settings that were set" in page.render(summarise(experiment(), ran), ran)
    assert "settings that were set" not in page.render(summarise(experiment(), record(1)), record(1))


def test_where_a_server_is_says_nothing_about_how_it_works():
    """Paths, ports and names are left out of the settings."""
    told = ("datadir", "pid_file", "socket", "port", "hostname", "server_id", "log_bin_basename", "report_host")

    assert [name for name in told if not described.PLACES.search(name)] == []
    assert not any(map(described.PLACES.search, ("sync_binlog", "innodb_log_file_size", "innodb_file_per_table")))


def test_the_links_of_a_cluster_are_one_condition():
    """With the least and the most of all of them, and each link that was not seen."""
    fault = toxic()
    other = msgspec.structs.replace(fault, link="node1-node2", seen=False, why="0.4 ms")
    ran = replaced(record(1), "after-sync-85ms-1", 1, faults=[fault, other])
    found = evidence_of.conditions(summarise(experiment(), ran))
    one = next(each for each in found if each.first.case == "after-sync-85ms-1")

    assert (one.links, one.taken, one.seen) == (["source-replica", "node1-node2"], 2, 1)
    assert one.why == ["node1-node2, round 1: 0.4 ms"]
