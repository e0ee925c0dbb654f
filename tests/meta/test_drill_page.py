"""Is the page of drills made from records alone?"""

import msgspec
import pytest
from replication_lab import runs as running
from replication_lab.model.core.event import End
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.drill import Expectation
from replication_lab.model.drill.drill_result import judge
from replication_lab.model.drill.history import Copy

from tests import all_drills, drill_page
from tests.unit.synthetic_drill import HISTORY, evidence, parsed, recorded, summed_up


@pytest.fixture
def book(runs):
    yield from recorded(runs)


def test_the_page_of_drills_has_a_row_for_each(book):
    """Made from records alone: the finished drill with its figures, the unfinished one with its doubt."""
    said = drill_page.page([running.judge(book.folder)], {"galera": []})

    assert "| first | a test's | 10 | 0 | 0 | 0 |" in said
    assert "| second | a test's | – | – | – | – |" in said
    assert "**UNKNOWN**: nothing is lost" in said


def test_the_page_begins_with_the_drills_that_lost_rows():
    """Counted in all tables, also in those that were not made again."""
    row = "| {} | a fault | 10 | {} | 0 | 0 | 0.0 | – | all hold |"
    old = "# A page\n\n## async\n\n" + row.format("cut", 0) + "\n" + row.format("lose-source", 29) + "\n"
    said = drill_page.page([], {"async": []}, old).split("\n\n")[1]

    assert said.startswith("**1 of 2 drills lost rows that a server had acknowledged:** async lose-source (29).")
    assert drill_page.page([], {"async": []}, old.replace("29", "0")).count("**0 of 2 drills lost rows") == 1


def test_a_section_without_a_record_stays(book):
    """It says what is expected, and which command records it."""
    runs = [running.judge(book.folder)]
    old = "# A page\n\n## async\n\nolder\n\n## galera\n\nolder\n"
    said = drill_page.page(runs, {"async": [], "galera": []}, old)

    assert said.count("## ") == 2 and "## async\n\nolder" in said and "| first | a test's | 10 |" in said


def test_a_drill_that_is_not_in_the_record_has_a_row_without_figures(book):
    """In the order of the drills."""
    drill = msgspec.structs.replace(parsed(), name="another", about="a fault")
    said = drill_page.page([running.judge(book.folder)], {"galera": [drill]})

    assert "| another | a fault | – | – | – | – | – | – | not in the kept record |\n| first |" in said


def test_an_interruption_ends_the_drills_of_all_topologies(book, monkeypatch):
    """No other topology's drills begin."""
    book.write(End(why="interrupted", reason="SIGTERM"))
    begun = []

    def drill(topology, *_):
        begun.append(topology)
        return book.folder, running.judge(book.folder)

    monkeypatch.setattr(running, "drill", drill)
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        all_drills.every.callback()

    assert len(begun) == 1


def test_the_page_tells_what_is_known_to_be_refuted():
    """With its reason."""
    known = Expectation("nothing is lost", "lost", equals=0, expect=Verdict.REFUTED, because="it is asynchronous")
    lossy = msgspec.structs.replace(parsed(), expected=[known])
    result = judge(evidence(drill=lossy, copies=[Copy("node1", [(0, 8)])]), HISTORY)

    said = drill_page.page([summed_up(result)], {"galera": []})

    assert "REFUTED as known: nothing is lost: it is asynchronous |" in said
