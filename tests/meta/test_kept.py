"""Are the parts of pages that are made from kept records those of today's records?"""

import re

import msgspec
import pytest
from replication_lab.model.core.verdict import Verdict
from replication_lab.report import wording
from replication_lab.world import catalogue, host

from tests import cpu_speed, kept
from tests.bench.figure import figure
from tests.lab import ten_minutes


def test_every_marked_part_is_found():
    """A marker without a block or a table behind it would keep an old figure."""
    for path in kept.PAGES:
        text = path.read_text()
        assert text.count("<!-- from a kept record") == len(kept.PART.findall(text)), path.name


def test_a_figure_that_was_changed_by_hand_is_noticed(tmp_path):
    """The record's own figure is put in its place."""
    page = tmp_path / "drills.md"
    page.write_text("<!-- from a kept record: drill chain lose-source -->\n\n```text\nrows 33 lost\n```\n")

    assert "rows          14 lost" in kept.page(page)


def test_the_first_lines_of_a_page_of_results_are_made_of_its_record(tmp_path):
    """Claims and figures of cases, each with its interval, in the words of answers.yaml; wrapped as all prose."""
    page = tmp_path / "drbd_cost.md"
    page.write_text(
        "# Title?\n\n<!-- from a kept record: first_lines drbd_cost -->\n\n**A half**: 11.4 a second.\n\nMore.\n"
    )
    made = kept.page(page)

    assert "**A third of the transactions: 15.5 [15.4–15.7] a second connected" in made and "A half" not in made
    assert made.endswith("\n\nMore.\n") and max(map(len, made.splitlines())) <= 100


def test_a_question_says_how_many_figures_are_known_and_what_makes_the_others_known():
    """A claim of the user's is counted apart; without a missing figure nothing is to be done."""
    whole = kept.experiment("ask_topologies")
    rows = {row.id: row for row in whole.claims}
    name = next(iter(whole.effects)).claims[0]
    missing = msgspec.structs.replace(rows[name], verdict=Verdict.UNKNOWN, rounds_needed=40)
    partly = msgspec.structs.replace(
        whole, verdict="UNKNOWN", exit_code=3, claims=[missing if row.id == name else row for row in whole.claims]
    )

    assert wording.overall(whole) == "the question is answered: 4 of 4 figures are known, 1 HOLDS (exit code 0)"
    assert "3 of 4 figures are known" in wording.overall(partly)
    assert (wording.remedy(whole), wording.remedy(partly)[:37]) == ("", "for the missing figures: --runs 40, l")


def test_no_page_shows_a_drill_that_is_not_of_a_kept_record():
    """What one page says is lost is what another page says of the same drill.

    The ten minutes are written as they were typed, by `make transcript`.
    """
    typed = re.compile(f"{re.escape(ten_minutes.BEGIN)}.*{re.escape(ten_minutes.END)}", re.S)
    for path in kept.PAGES:
        marked = typed.sub("", kept.PART.sub("", path.read_text()))
        shown = re.findall(r"^  rows +\d+ lost.*$|^  meanwhile .*$", marked, re.M)
        assert shown == [], path.name


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (2114.1, "2110"),
        (0.98465, "0.985"),
        (1.0045, "1.00"),
        (85.298, "85.3"),
        (0, "0"),
        (115018, "115000"),
        (999.6, "1000"),
    ],
)
def test_a_figure_has_three_significant_digits(value, said):
    """Also where it ends in zeros."""
    assert kept.digits(value) == said


def test_a_row_of_the_benchmark_has_median_interval_and_goal(monkeypatch, tmp_path):
    """Rounded; a goal that was missed is printed as such. Without a kept run the page stays as it is."""
    assert kept.bench_row(figure("lab up / compose", "", [2.459, 3.287, 2.886], 1.5)) == (
        *("lab up / compose", "2.89", "1.85 to 3.91"),
        *("≤ 1.50", "**no**"),
    )
    monkeypatch.setattr(kept, "BENCH", tmp_path / "none.json")
    assert (kept.bench(), kept.bench_machine()) == ("", "")


def test_the_page_of_the_benchmark_is_made_of_a_kept_run(monkeypatch, tmp_path):
    """As `make bench` writes it."""
    run = {"day": "2030-01-01", "environment": {**host.describe(), "cpus": 3}}
    (tmp_path / "bench.json").write_bytes(msgspec.json.encode({**run, "figures": [figure("x", "s", [1.0, 2.0], 6)]}))
    monkeypatch.setattr(kept, "BENCH", tmp_path / "bench.json")

    assert "| x | 1.50 s | " in kept.bench() and kept.bench().startswith("| figure | median |")
    assert ", 3 CPUs, " in kept.bench_machine() and kept.bench_machine().endswith("; 2030-01-01.\n")


def test_the_speed_of_this_machine_is_compared_with_that_of_the_benchmark(monkeypatch, tmp_path):
    """As the end of `make test` shows it; a run that recorded no loop is compared with nothing."""
    run = {"day": "2030-01-01", "environment": {**host.describe(), "loop_us": 200.0}, "figures": []}
    monkeypatch.setattr(kept, "BENCH", tmp_path / "bench.json")
    kept.BENCH.write_bytes(msgspec.json.encode(run))

    assert "a loop took 300 us, 1.50 times as long as" in cpu_speed.compared(300.0)
    assert " ".join(kept.bench_machine().split()).endswith("; 2030-01-01. A loop of the harness took 200 us.")
    kept.BENCH.unlink()
    assert cpu_speed.compared(300.0) == "speed of the CPUs: a loop took 300 us"
    assert 0 < cpu_speed.typical_loop_us() < 100_000


def test_the_sentences_of_a_kept_drill_are_those_of_its_file():
    """Records are older than the wording."""
    found = kept.drills_of("semisync")
    drill = next(each for each in found.drills if each.name == "cut-link")

    assert drill.about in (catalogue.ROOT / "harness/replication_lab/drills/semisync/cut-link.yaml").read_text()
