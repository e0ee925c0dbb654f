"""Does each format of `lab report` show every verdict, and none as better than it is?"""

import csv
import io
import json
import re
from dataclasses import replace

import msgspec
import pytest
from click.testing import CliRunner
from junitparser import JUnitXml
from replication_lab import cli
from replication_lab.model.core.event import End
from replication_lab.model.core.statistics import Interval
from replication_lab.model.drill.drill_result import Result
from replication_lab.model.drill.timeline import Timeline
from replication_lab.model.experiment.quantities import throughput
from replication_lab.model.record.record import Record
from replication_lab.report import compared, formats, markdown, page, summarise

from tests.records import golden
from tests.unit.synthetic import claim, experiment, record
from tests.unit.synthetic_digests import compare
from tests.unit.synthetic_digests import run as digest
from tests.unit.synthetic_drill import parsed, summed_up

CHANGED = claim(throughput("async-85ms") / throughput("none") >= 0.99)
OPEN = claim(throughput("async-85ms") / throughput("none") >= 0.895)


NAMES = ("first", "second", "third")


def summary_of(*claims, of=None):
    named = [replace(each, id=name) for each, name in zip(claims, NAMES, strict=False)]
    return summarise(experiment(named, data="{}") if named else experiment(), of or record(4))


def lab(*arguments):
    return CliRunner().invoke(cli.cli, arguments, prog_name="lab")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return the folders of an experiment's run, of a question's and of drills."""
    folder = tmp_path_factory.mktemp("formats")
    names = ("semisync_wan", "ask_topologies", "drill-semisync-3")
    return {name: golden.unpack(name, folder) for name in names}


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def rows(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the table whose first heading this is."""
    lines = text.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    found = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


# --- Markdown ---------------------------------------------------------------------------------------------------------


def test_a_table_has_verdict_interval_bound_and_reason_of_each_claim(recorded):
    """Every claim of a run is a row, and an expected refutation has the reason that is on file."""
    text = lab("report", str(recorded["semisync_wan"]), "--format", "markdown").stdout
    found = rows(text, "verdict")

    assert len(found) == 17 and {len(row) for row in found} == {6}
    verdict, _, engine, measured, bound, reason = next(row for row in found if row[0].startswith("REFUTED"))
    assert (verdict, engine, measured) == ("REFUTED as expected", "mariadb", "0.7345 [0.6630–0.8137]")
    assert bound.endswith("≥ 0.9") and "group by group" in reason


def test_the_worst_verdict_stands_first():
    """An unexpected verdict stands before an unknown one, and both before those that hold."""
    good = claim(throughput("none") >= 1)
    found = rows(markdown.text(summary_of(good, OPEN, CHANGED), "a-run"), "verdict")

    assert [row[0] for row in found] == ["REFUTED, expected HOLDS", "UNKNOWN", "HOLDS"]


def test_the_outcome_and_the_doubts_stand_before_the_tables():
    """A reader of a job summary sees a crash before any figure."""
    text = markdown.text(summary_of(CHANGED, of=record(4, ("mariadb",), End(why="crashed", reason="disk full"))), "r")

    assert text.index("**CRASHED**") < text.index("- crashed: disk full") < text.index("| verdict |")


def test_an_answer_has_its_interval_and_is_marked_if_it_includes_no_change(recorded):
    """As `lab compare` marks it, with ~."""
    text = lab("report", str(recorded["ask_topologies"]), "--format", "markdown").stdout

    assert [row[2] for row in rows(text, "setting")] == ["0.02389–0.02729 times", "0.01403–0.01581 times"]
    assert markdown._times(Interval(1.0, 0.97, 1.02, n=6, level=0.95)) == "~ 0.9700–1.020 times"


def test_drills_have_what_was_lost_and_how_long_it_took(recorded):
    """Lost rows, RPO and RTO of each drill, with the verdicts that are not a plain HOLDS."""
    text = lab("report", str(recorded["drill-semisync-3"]), "--format", "markdown").stdout
    found = {row[1]: row for row in rows(text, "verdict")}

    assert set(found) == {"cut-one-link", "lose-source-and-link"}
    assert all(len(row) == 6 and re.fullmatch(r"\d+", row[2]) for row in found.values())


def test_a_drill_without_a_result_is_unknown_and_says_why():
    """A drill that could not be done is neither green nor without a line."""
    found = rows(markdown.text(summed_up(Result(parsed(), {}, [], ["the lab did not start"])), "r"), "verdict")

    assert found == [["UNKNOWN", "test", "–", "–", "–", "doubt: the lab did not start"]]


def test_no_text_of_a_record_is_read_as_markup():
    """A server's message may hold anything: it neither ends a cell nor makes a link or a tag."""
    said = markdown.plain("a|b <script>alert(1)</script>\n`x` [l](http://x) *y* _z_ snake_case")

    assert "\n" not in said and re.findall(r"(?<!\\)[|<>`*]", said) == [] and "]\\(" in said
    assert "snake_case" in said


def test_a_comparison_names_what_is_worse_first():
    """The outcome, then the figures that decide; an interval with 1 in it has a ~."""
    found = compare(digest(1000, 0.02, seed=1), digest(700, 0.02, seed=2), 0.1)
    text = compared.markdown_text(found, 0.1)

    assert "**a figure is worse by more than 10%" in text
    assert rows(text, "outcome")[0][0] == "worse"
    same = compare(digest(1000, 0.02, seed=1), digest(1000, 0.02, seed=2), 0.1)
    assert any(row[5].startswith("~ ") for row in rows(compared.markdown_text(same, 0.1), "outcome"))


# --- GitHub's workflow commands ---------------------------------------------------------------------------------------


def test_a_changed_verdict_is_an_error_and_an_unknown_one_a_warning():
    """What holds needs no line."""
    lines = formats.annotations(summary_of(claim(throughput("none") >= 1), OPEN, CHANGED)).splitlines()

    assert [re.match(r"::(\w+) title=([^:]+)::", line).groups() for line in lines] == [
        ("warning", "UNKNOWN"),
        ("error", "REFUTED%2C expected HOLDS"),
    ]


def test_a_run_that_broke_off_is_an_error():
    """Also if every verdict so far is green."""
    killed = Record(record(2).events[:-1])

    assert formats.annotations(summary_of(of=killed)).startswith("::error title=the run did not finish::")


def test_a_message_cannot_end_its_command():
    """A line break would begin another command, of a server's own."""
    said = formats.command("error", "a:b", "100%\n::warning::x")

    assert said == "::error title=a%3Ab::100%25%0A::warning::x"


# --- other formats ----------------------------------------------------------------------------------------------------


def test_csv_has_a_line_for_each_figure_of_each_quiet_round(recorded):
    """Under a heading, with units."""
    found = read_csv(lab("report", str(recorded["semisync_wan"]), "--format", "csv").stdout)

    assert {row["figure"] for row in found} >= {"throughput", "latency_p50_ms"}
    assert {row["unit"] for row in found if row["figure"] == "throughput"} == {"1/s"}
    assert all(float(row["value"]) > 0 for row in found)


def test_csv_of_drills_has_their_figures(recorded):
    """The drill stands where an experiment has its case."""
    said = lab("report", str(recorded["drill-semisync-3"]), "--format", "csv").stdout
    found = {(row["case"], row["figure"]): row for row in read_csv(said)}

    assert found["cut-one-link", "lost"]["value"] == "0"
    assert found["cut-one-link", "rpo_s"]["unit"] == "s"


def test_figures_in_doubt_say_so_and_are_no_benchmark():
    """Sabotage: a program that reads the file cannot take them for proved ones."""
    doubtful = digest()
    doubtful.engines["mariadb"].cases["none"].doubts.append("a fault was not seen")

    assert {row["doubt"] for row in read_csv(formats.csv_of_experiment(digest()))} == {""}
    assert {row["doubt"] for row in read_csv(formats.csv_of_experiment(doubtful))} == {"a fault was not seen"}
    assert json.loads(formats.benchmark(doubtful)) == []


def test_the_figures_of_a_drill_in_doubt_say_so():
    """As for experiments."""
    summary = summed_up(Result(parsed(), {"lost": 0}, [], ["no fault was seen"]))

    assert {row["doubt"] for row in read_csv(formats.csv_of_drills("x", summary))} == {"no fault was seen"}


@pytest.mark.parametrize("begins", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_of_a_foreign_record_is_a_formula(begins):
    """A spreadsheet computes a cell that begins with one of these; numbers, also negative ones, stay numbers."""
    formula = f"{begins}HYPERLINK(1)"
    case = msgspec.structs.replace(digest().engines["mariadb"].cases["none"], figures={formula: [-1.5, 1e-7]})
    engine = msgspec.structs.replace(digest().engines["mariadb"], version=formula, cases={formula: case})
    foreign = msgspec.structs.replace(digest(), run=formula, engines={formula: engine})
    summary = summary_of()
    row = msgspec.structs.replace(summary.cases[0], name=formula, about=formula)
    texts = [
        formats.csv_of_experiment(foreign),
        formats.csv_of_drills(formula, summed_up(Result(parsed(), {"lost": -2}, [], [formula]))),
        page.figures_csv(msgspec.structs.replace(summary, cases=[row])),
        page.ledger_csv(Timeline((0, 1), 1, [], {formula: []})),
    ]
    cells = [cell for text in texts for row in csv.reader(io.StringIO(text, newline="")) for cell in row]

    assert sum(cell.endswith("HYPERLINK(1)") for cell in cells) >= 4
    assert {cell for cell in cells if cell.startswith(begins)} <= {"-1.5", "-2"}
    assert {"-1.5", "1e-07", "-2"} <= {*cells}


def test_benchmark_actions_get_an_entry_for_each_throughput(recorded):
    """With the keys that they read."""
    entries = json.loads(lab("report", str(recorded["semisync_wan"]), "--format", "benchmark").stdout)

    assert {"name", "unit", "value", "range", "extra"} == set(entries[0])
    assert entries[0]["name"].startswith("semisync_wan: ")


def test_junit_and_html_are_those_of_the_files(recorded, undrawn):
    """Printed in place of written."""
    run = str(recorded["semisync_wan"])

    assert len(list(JUnitXml.fromstring(lab("report", run, "--format", "junit").stdout.encode()))) == 1
    assert lab("report", run, "--format", "html").exit_code == 0
    assert not (recorded["semisync_wan"] / "report.html").exists(), "a format is printed, and no file written"


def test_two_ways_to_print_are_refused(recorded):
    """Each is another form of the report."""
    ended = lab("report", str(recorded["semisync_wan"]), "--format", "csv", "--json")

    assert "--format with --json" in str(ended.exception)


def test_every_format_has_a_maker(recorded, undrawn):
    """The choices of the option and the makers are the same."""
    assert [lab("report", str(recorded["semisync_wan"]), "--format", each).exit_code for each in formats.FORMATS] == [
        0
    ] * len(formats.FORMATS)
