"""Are a viewer's clicks kept as bands and as a drill, and is the ledger of a load counted as its clients were told?"""

import pytest
from replication_lab.live.tally import LoadTally
from replication_lab.live.viewer_actions import ViewerActions, drill_of
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.drill.history import Invoked, Outcome, StatementEnd, encode
from replication_lab.model.live.view import Span
from replication_lab.runner import drill_set

LINK = "source-replica"


def click(begin, end, target, action):
    kind = "link" if "-" in target else "node"
    return Span(id=0, begin=begin, end=end, label=action, kind=kind, target=target, action=action)


def drill(*clicks, topology="semisync"):
    """Return the drill of these clicks as `lab drill FILE` reads it."""
    text = drill_of(clicks, topology, {"source": 4}, 10.0, "Clicked.")
    return drill_set.of_file(GivenFile("clicked.yaml", text))


def test_clicks_one_after_another_are_steps():
    """Each with its own duration."""
    found = drill(click(2, 5, LINK, "200ms"), click(6, 8.5, LINK, "cut"), click(9, 12, "source", "kill"))

    assert [(str(step), step.seconds) for step in found.steps] == [
        (f"condition 200ms on {LINK}", 3.0),
        (f"cut on {LINK}", 2.5),
        ("kill on source", 3.0),
    ]
    assert (found.name, found.topology, found.clients) == ("clicked", "semisync", {"source": 4})


def test_clicks_that_overlap_are_one_step_with_a_failover_at_its_end():
    """The promoted node gets a client, so that the drill sees who accepts writes."""
    found = drill(click(2, 20, LINK, "200ms"), click(5, 20, "source", "kill"), click(9, 9.5, "replica", "promote"))

    [step] = found.steps
    assert (str(step), step.seconds) == (f"condition 200ms on {LINK} and kill on source after 3 s", 18.0)
    assert step.failover == "replica" and found.clients == {"source": 4, "replica": 1}


def test_a_viewer_who_broke_nothing_has_no_drill(refused):
    """Starting a node or comparing the ledger is no fault."""
    error = refused(drill_of, [click(1, 2, "source", "start")], "semisync", {"source": 4}, 0, "")

    assert "nothing was clicked" in error.found


@pytest.mark.parametrize("text", ["about: without a topology", "topology: nowhere", "topology: semisync\nsteps: 7"])
def test_a_file_that_is_no_drill_is_refused(refused, text):
    """Before a lab is started for it."""
    assert refused(drill_set.of_file, GivenFile("mine.yaml", text))


def test_a_condition_lasts_until_the_next_one():
    """The usual condition only ends the one before."""
    actions = ViewerActions()
    actions.condition(LINK, "200ms", 1.0, False)
    actions.verified(LINK, True)
    actions.condition(LINK, "cut", 4.0, False)
    actions.condition(LINK, "wan-85ms", 9.0, True)

    assert [(span.label, span.begin, span.end, span.seen) for span in actions.spans(10)] == [
        (f"{LINK} 200ms", 1.0, 4.0, True),
        (f"{LINK} cut", 4.0, 9.0, None),
    ]


def test_the_steps_of_a_slider_are_not_kept():
    """Only conditions that lasted a second."""
    actions = ViewerActions()
    for number in range(10):
        actions.condition(LINK, f"{number + 1}ms", 1 + number / 10, False)

    assert [span.label for span in actions.spans(5)] == [f"{LINK} 10ms"]


def test_a_fault_of_a_node_lasts_until_it_is_undone():
    """One that was refused does not last at all."""
    actions = ViewerActions()
    for action, at, seen in (("kill", 1, True), ("start", 5, True), ("pause", 7, False)):
        actions.action("source", action, at, done=False)
        actions.action("source", action, at + 1, done=True, seen=seen)

    spans = {span.label: (span.begin, span.end, span.seen) for span in actions.spans(9)}
    assert spans["kill source"] == (1, 6, True)
    assert spans["pause source"] == (7, 8, False)
    assert [each.action for each in actions.for_a_drill(9)] == ["kill", "start"]


@pytest.fixture
def tally():
    """Return a tally of two clients: 5 rows acknowledged, one failed, one unknown, one still in flight."""
    tally = LoadTally()
    for client, outcomes in {1: "AAFA", 2: "AUA"}.items():
        for number, outcome in enumerate(outcomes):
            row = client * 1_000_000_000 + number
            tally.write(encode(Invoked(row, client, "source", number, "")))
            kind = {"A": Outcome.ACKNOWLEDGED, "F": Outcome.FAILED, "U": Outcome.UNKNOWN}[outcome]
            tally.write(encode(StatementEnd(row, number + 0.085, kind)))
    tally.write(encode(Invoked(1_000_000_004, 1, "source", 9, "")))
    return tally


def test_the_ledger_is_counted_as_the_clients_were_told(tally):
    """Acknowledged rows are kept as ranges, so that they can be looked for on a node."""
    assert (tally.sent, tally.acknowledged, tally.failed, tally.unknown, tally.in_flight) == (8, 5, 1, 1, 1)
    assert tally.rows() == [
        (1_000_000_000, 1_000_000_001),
        (1_000_000_003, 1_000_000_003),
        (2_000_000_000, 2_000_000_000),
        (2_000_000_002, 2_000_000_002),
    ]


def test_a_second_has_only_its_own_answers(tally):
    """Each answer is in one window, never in two."""
    first, second = tally.take(), tally.take()

    assert first.commits_ms == pytest.approx([85.0] * 5) and first.errors == 2
    assert second.commits_ms == [] and second.errors == 0
