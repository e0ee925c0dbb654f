"""Is a drill's ledger counted by second and by phase as a person counts it?"""

import math
import threading

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.drill_result import judge
from replication_lab.model.drill.evidence import Looked, View
from replication_lab.model.drill.history import Attempt, Outcome
from replication_lab.model.drill.timeline import Tally, Timeline, phases, quantile, tally, timeline
from replication_lab.report import chart, timelines
from replication_lab.report.rows import DrillRow
from replication_lab.runner import watched as watched_module
from replication_lab.runner.watched import watching
from replication_lab.world import clock

from tests.unit.synthetic_drill import HISTORY, evidence, fault

OK, NO, LOST = Outcome.ACKNOWLEDGED, Outcome.FAILED, Outcome.UNKNOWN
# Counted by hand below: when each statement was sent and answered, where, and how.
LEDGER = [
    Attempt(1, 1, "source", 0.1, 0.2, OK),
    Attempt(2, 2, "replica", 0.2, 0.3, NO, 1290),
    Attempt(3, 1, "source", 0.3, 1.1, OK),
    Attempt(4, 1, "source", 1.2, 2.2, LOST, 2013),
    Attempt(5, 2, "replica", 2.1, 2.4, OK),
    Attempt(6, 2, "replica", 2.5, 2.6, OK),
    Attempt(7, 1, "source", 3.1),
    Attempt(8, 2, "replica", 2.9, 3.6, OK),
]
LOAD = (0.0, 3.5)


def test_answers_are_counted_in_the_second_in_which_they_came():
    """Statement 3 was sent in the first second and counts in the next; 8 came after the end, and counts in the last."""
    found = timeline(LEDGER, LOAD)

    assert found.width == 1.0
    assert [(each.acknowledged, each.failed, each.unknown) for each in found.tallies] == [
        (1, 1, 0),
        (1, 0, 0),
        (2, 0, 1),
        (1, 0, 1),
    ]
    assert found.by_node == {"replica": [0, 0, 2, 1], "source": [1, 1, 0, 0]}


def test_each_second_has_the_latencies_of_its_own_answers():
    """In milliseconds; a failed statement has none, since its answer says nothing about commits."""
    found = timeline(LEDGER, LOAD).tallies

    assert [each.p50_ms for each in found] == [100, 800, 200, 700]
    assert (found[2].p95_ms, found[2].p99_ms) == (290, 298)


def test_the_last_interval_knows_that_it_is_shorter():
    """A rate over a whole second would be too low."""
    found = timeline(LEDGER, LOAD)

    assert [found.seconds(number) for number in range(4)] == [1, 1, 1, 0.5]
    assert [found.begin(number) for number in range(4)] == [0, 1, 2, 3]


def test_no_statement_is_left_out_or_counted_twice():
    """The sum over all intervals is that of the ledger, whatever their width."""
    many = [Attempt(n, 1, "source", n / 50, n / 50 + 0.3, OK) for n in range(400)]
    found = timeline(many, (0.0, 8.0))

    assert found.width == 0.5
    assert sum(each.acknowledged for each in found.tallies) == 400
    assert sum(found.by_node["source"]) == 400


def test_a_load_without_statements_has_empty_intervals():
    """Nothing was answered: no rate is made up."""
    assert timeline([], (0.0, 2.0)).tallies == [Tally(), Tally()]
    assert timeline([], (0.0, 0.0)).tallies == [Tally()]


def test_phases_are_cut_at_the_moments_of_the_fault():
    """By when a statement was sent: number 3 belongs to the injection, 4 to the fault, 7 and 8 to the recovery."""
    acted = fault(broke=0.25, struck=1.0, healed=2.0, whole=3.2)
    found = phases(LEDGER, LOAD, [acted])

    assert [(each.name, each.begin, each.end) for each in found] == [
        ("before", 0.0, 0.25),
        ("injection", 0.25, 1.0),
        ("fault", 1.0, 2.0),
        ("recovery", 2.0, 3.2),
        ("after", 3.2, 3.5),
    ]
    assert [(each.tally.acknowledged, each.tally.failed, each.tally.unknown) for each in found] == [
        (1, 1, 0),
        (1, 0, 0),
        (0, 0, 1),
        (3, 0, 1),
        (0, 0, 0),
    ]


def test_ratios_are_to_the_phase_before_the_first_fault():
    """Ten a second before, five during; 10 ms before, 40 ms during."""
    before = [Attempt(n, 1, "a", n / 10, n / 10 + 0.010, OK) for n in range(20)]
    during = [Attempt(100 + n, 1, "a", 2 + n / 5, 2 + n / 5 + 0.040, OK) for n in range(20)]
    found = phases([*before, *during], (0.0, 6.0), [fault(broke=2.0, struck=2.0, healed=6.0, whole=6.0)])
    of_fault = next(each for each in found if each.name == "fault")

    assert (found[0].throughput, of_fault.throughput) == (10, 5)
    assert (of_fault.throughput_ratio, of_fault.latency_ratio) == (0.5, 4)


def test_a_phase_that_is_too_short_has_counts_and_no_rate():
    """An injection of ten milliseconds with one answer is not a hundred a second."""
    found = phases(LEDGER, LOAD, [fault(broke=0.25, struck=0.31, healed=2.0, whole=3.2)])

    assert found[1].tally.acknowledged == 1
    assert found[1].throughput is None and found[1].throughput_ratio is None


def test_each_fault_of_a_drill_has_its_own_phases():
    """The time between two faults belongs to the first one's end."""
    two = [fault(broke=1.0, struck=1.0, healed=1.5, whole=2.0), fault(broke=3.0, struck=3.0, healed=3.2, whole=3.4)]
    found = phases(LEDGER, LOAD, two)

    assert [each.step for each in found] == [1, 1, 1, 1, 1, 2, 2, 2, 2]
    assert (found[4].begin, found[4].end, found[-1].end) == (2.0, 3.0, 3.5)


def test_a_drill_without_a_fault_has_no_phases():
    """There is nothing to compare."""
    assert phases(HISTORY, LOAD, []) == []


@pytest.mark.parametrize(
    ("ordered", "share", "expected"), [([5], 0.5, 5), ([1, 3], 0.5, 2), ([1, 2, 3, 4], 0.95, 3.85), ([1, 2], 1, 2)]
)
def test_a_quantile_is_interpolated(ordered, share, expected):
    """As numpy does by default."""
    assert quantile(ordered, share) == pytest.approx(expected)


def test_a_tally_of_what_was_never_answered_is_unknown():
    """Its answer may still come."""
    assert tally([Attempt(1, 1, "a", 0.0, math.inf)]) == Tally(unknown=1)


def test_a_result_holds_what_its_clients_saw():
    """Judging a drill makes the timeline and the phases of its own ledger."""
    found = judge(evidence(), HISTORY)

    assert found.timeline == timeline(HISTORY, evidence().load)
    assert [each.name for each in found.phases] == ["before", "injection", "fault", "recovery", "after"]


# --- what the nodes said meanwhile ------------------------------------------------------------------------------------


class Asked:
    """A node whose views are given, after one that is asked before anybody writes; asking too often ends the watch."""

    names = ["replica"]

    def __init__(self, lab):
        self.lab = lab

    def view(self, _name):
        return self.lab.answer()


class AskedLab:
    """A lab that answers with the next view, or does not."""

    def __init__(self, *answers):
        self.answers, self.asked, self.refreshed = list(answers), threading.Event(), 0

    def answer(self):
        if not self.answers:
            self.asked.set()
        found = self.answers.pop(0) if self.answers else None
        if found is None:
            raise LabError("no answer", "one")
        return found

    def refresh(self):
        self.refreshed += 1

    def another(self):
        return self


def watched(monkeypatch, nodes) -> list[Looked]:
    """Return what was seen of the nodes until the lab had no more answers."""
    monkeypatch.setattr(clock, "pause", lambda _seconds, unless=None: unless.wait(0.001))
    with watching(nodes, clock.timer()) as found:
        assert nodes.lab.asked.wait(5)
    return found


def test_the_nodes_are_asked_while_clients_write(monkeypatch):
    """By a lab object of their own; an error is a silent node, and its address is looked up again."""
    found = watched(
        monkeypatch, Asked(AskedLab(View("first"), View("replicating", behind_s=3), None, View("not connected")))
    )

    assert [str(one.view) for one in found][:3] == ["replicating", "does not answer", "not connected"]
    assert found[0].view.behind_s == 3 and found[0].node == "replica"


def test_a_node_is_asked_so_seldom_that_its_answers_take_a_tenth_of_its_time(monkeypatch):
    """A fast answer is followed by the usual pause, a slow one by a longer pause, and no answer by the usual one."""
    pauses, now = [], [0.0]
    nodes = Asked(AskedLab(View("Primary, Connected")))
    monkeypatch.setattr(clock, "timer", lambda: now[0])

    def paused_after(took, answers):
        nodes.lab.answers, stop = answers, threading.Event()
        monkeypatch.setattr(
            nodes.lab, "answer", lambda: now.__setitem__(0, now[0] + took) or AskedLab.answer(nodes.lab)
        )
        monkeypatch.setattr(clock, "pause", lambda seconds, unless: (pauses.append(seconds), unless.set()))
        watched_module._watch(nodes, "node1", 0.0, [], stop, threading.Barrier(1))
        return round(pauses[-1], 3)

    first = View("Primary, Connected")
    assert paused_after(0.01, [first, View("Primary, Connected")]) == 1
    assert paused_after(2.0, [first, View("Primary, Connected")]) == 20
    assert paused_after(3.0, [first, None]) == 1


def states_of(looked, end):
    """Return the spans of the only node in the chart of states of a drill that took so long."""
    found = Timeline((0.0, end), 1.0, [], {}, looked)
    *_, states = timelines.charts("d", DrillRow.of(judge(evidence(), HISTORY)), found)
    return states.strips[0].spans


def test_the_pause_of_a_node_that_is_asked_seldom_is_no_silence():
    """Its states are one span; a silence of many pauses is shown, and the disks' states belong to the state."""
    disks = ("UpToDate/UpToDate, in sync", "UpToDate/DUnknown, out of sync")
    looked = [Looked(at, "node1", View("Primary, Connected", disks=disks[0])) for at in (0.0, 4.3, 8.6)]
    looked.append(Looked(21.0, "node1", View("Primary, WFConnection", disks=disks[1])))
    found = states_of(looked, 24.0)

    assert [(round(begin, 2), round(end, 2), state, tone) for begin, end, state, tone in found] == [
        (0.0, 15.05, f"Primary, Connected, {disks[0]}", "good"),
        (15.05, 21.0, "no answer", "bad"),
        (21.0, 24.0, f"Primary, WFConnection, {disks[1]}", "doubt"),
    ]


def test_states_are_spans_with_the_silence_between_them():
    """A replica that replicates, is asked in vain for seconds, then is not connected."""
    looked = [
        Looked(0.1, "replica", View("replicating", behind_s=0)),
        Looked(1.1, "replica", View("replicating", behind_s=1)),
        Looked(6.0, "replica", View("not connected")),
        Looked(7.0, "replica", View(error="does not answer")),
    ]
    found = states_of(looked, 8.0)

    assert [(begin, end, state, tone) for begin, end, state, tone in found] == [
        (0.1, 3.6, "replicating", "good"),
        (3.6, 6.0, "no answer", "bad"),
        (6.0, 7.0, "not connected", "doubt"),
        (7.0, 8.0, "does not answer", "bad"),
    ]


def test_lag_and_states_are_charts_where_they_were_recorded():
    """An older record has neither, and is drawn all the same."""
    looked = [Looked(1.0, "node1", View("replicating", behind_s=2)), Looked(1.0, "node2", View("serving"))]
    row = DrillRow.of(judge(evidence(), HISTORY))

    def drawn(seen):
        found = timelines.charts("d", row, timeline(HISTORY, (0.0, 10.0), seen))
        return {chart.told.partition(": ")[2]: chart for chart in found}

    assert "lag of the replicas" not in drawn([]) and "states of the nodes" not in drawn([])
    later = [*looked, Looked(7.0, "node1", View("replicating", behind_s=5))]
    (lag,) = drawn(later)["lag of the replicas"].lines
    assert (lag.label, lag.points) == ("node1", [(1.0, 2.0), (3.5, None), (7.0, 5.0), (10.0, None)])
    assert [strip.label for strip in drawn(looked)["states of the nodes"].strips] == ["node1", "node2"]
    assert ">serving</text>" in chart.drawn(drawn(looked)["states of the nodes"])


def test_a_steady_rate_does_not_fall_at_the_end_of_the_load():
    """The last interval is short: it has its own rate, or none if it is shorter than half of the others."""
    steady = [Attempt(n, 1, "node1", n / 5, n / 5 + 0.01, OK) for n in range(17)]
    whole, short = timeline(steady, (0.0, 3.6)), timeline(steady, (0.0, 3.3))

    assert [rate for _, rate in timelines._rates(whole, whole.by_node["node1"])] == [5, 5, 5, 3.333]
    assert [rate for _, rate in timelines._rates(short, short.by_node["node1"])][-1] is None
    assert "at most 5;" in timelines.spark(DrillRow.of(judge(evidence(), HISTORY)), whole)
