"""Is the page of drills made from records alone?"""

import msgspec
import pytest
from click.testing import CliRunner
from replication_lab import runs as running
from replication_lab.cli import drill as drill_command
from replication_lab.model.drill import Expectation
from replication_lab.model.drill_result import judge
from replication_lab.model.event import End
from replication_lab.model.history import Copy
from replication_lab.model.verdict import Verdict
from replication_lab.report import drill_page
from replication_lab.runner import drill_set
from replication_lab.world import catalogue, journal

import synthetic
from synthetic_drill import HISTORY, evidence, parsed, recorded, summed_up


@pytest.fixture
def book(runs):
    yield from recorded(runs)


def test_the_page_of_drills_has_a_row_for_each(book):
    """Made from records alone: the finished drill with its figures, the unfinished one with its doubt."""
    said = drill_page.page([running.judge(book.folder)], ["galera"])

    assert "| first | a test's | 10 | 0 | 0 | 0 |" in said
    assert "| second | a test's | – | – | – | – |" in said
    assert "**UNKNOWN**: nothing is lost" in said


def test_the_page_begins_with_the_drills_that_lost_rows():
    """Counted in all tables, also in those that were not made again."""
    row = "| {} | a fault | 10 | {} | 0 | 0 | 0.0 | – | all hold |"
    old = "# A page\n\n## async\n\n" + row.format("cut", 0) + "\n" + row.format("lose-source", 29) + "\n"
    said = drill_page.page([], ["async"], old).split("\n\n")[1]

    assert said.startswith("**1 of 2 drills lost rows that a server had acknowledged:** async lose-source (29).")
    assert drill_page.page([], ["async"], old.replace("29", "0")).count("**0 of 2 drills lost rows") == 1


def test_a_table_that_was_not_made_anew_stays(book):
    """A page of many minutes is not made again for one topology."""
    runs = [running.judge(book.folder)]
    old = "# A page\n\n## async\n\nolder\n\n## galera\n\nolder\n"
    said = drill_page.page(runs, ["async", "galera"], old)

    assert said.count("## ") == 2 and "## async\n\nolder" in said and "| first | a test's | 10 |" in said


def test_the_page_is_made_again_from_recorded_runs(book, monkeypatch, tmp_path):
    """`make drills` of a RUN does no drill: its topology's table is new, the others stay, and the status is its own."""
    monkeypatch.setattr(drill_command, "PAGE", tmp_path / "faults.md")
    monkeypatch.setattr(catalogue, "ROOT", tmp_path)
    monkeypatch.setattr(running, "drill", lambda *_: pytest.fail("a drill was done"))
    (tmp_path / "faults.md").write_text("# A page\n\n## async\n\nolder\n")
    monkeypatch.setattr(drill_set, "known", lambda: {"async": [], "galera": []})
    ended = CliRunner().invoke(drill_command.write_page, [str(book.folder)])
    said = (tmp_path / "faults.md").read_text()

    assert ended.exit_code == 2, "one of the two drills was not done"
    assert "## async\n\nolder\n\n## galera" in said and "| first | a test's | 10 |" in said


def test_an_interruption_ends_the_drills_of_all_topologies(book, monkeypatch, tmp_path):
    """No other topology's drills begin, and the page stays."""
    book.write(End(why="interrupted", reason="SIGTERM"))
    begun = []

    def drill(topology, *_):
        begun.append(topology)
        return book.folder, running.judge(book.folder)

    monkeypatch.setattr(drill_command, "PAGE", tmp_path / "faults.md")
    monkeypatch.setattr(running, "drill", drill)
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        drill_command.write_page.callback(())

    assert len(begun) == 1 and not (tmp_path / "faults.md").exists()


def test_the_page_is_not_made_of_an_experiment(runs, refused, monkeypatch):
    """Which has no drills."""
    journal.Journal("semisync_wan").write(synthetic.run())

    assert "is the record of an experiment" in refused(drill_command.write_page.callback, ("latest",)).found


def test_the_page_tells_what_is_known_to_be_refuted():
    """With its reason."""
    known = Expectation("nothing is lost", "lost", equals=0, expect=Verdict.REFUTED, because="it is asynchronous")
    lossy = msgspec.structs.replace(parsed(), expected=[known])
    result = judge(evidence(drill=lossy, copies=[Copy("node1", [(0, 8)])]), HISTORY)

    said = drill_page.page([summed_up(result)], ["galera"])

    assert "REFUTED as known: nothing is lost: it is asynchronous |" in said
