"""Is the time in which two servers took writes known as exactly as they were read, and unknown where they were not?"""

from types import SimpleNamespace

import msgspec
import pymysql
import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill import checkers
from replication_lab.model.drill.drill import Expectation
from replication_lab.model.drill.drill_result import judge
from replication_lab.model.drill.evidence import ThroughEndpoint
from replication_lab.model.drill.writable import LONGEST_GAP_SECONDS
from replication_lab.report.drill_text import text
from replication_lab.runner import drill_set, succession
from replication_lab.runner.succession import ByManager, TakesWrites
from replication_lab.world import clock, requests_made
from replication_lab.world.mysql.dialects import dialects

from tests.unit.synthetic_drill import HISTORY, evidence, fault, summed_up

NEVER_TWO = Expectation("at no time do two nodes take writes", "two_writable_s", equals=0)
ONE_SECOND = {"node1": [(0.0, 5.0)], "node2": [(4.0, 6.0)]}


def judged(expected=NEVER_TWO, manager="", **seen):
    """Return the result of a drill with this expectation and these readings, and the verdict on it."""
    drill = msgspec.structs.replace(evidence().drill, expected=[expected], manager=manager, steps=[])
    result = judge(evidence(drill=drill, acted=[fault(2, 2, 5, 6)] if manager else [], **seen), HISTORY)
    return result, result.judgements[0]


# --- the time with two servers ----------------------------------------------------------------------------------------


def test_the_time_with_two_writable_nodes_is_that_in_which_both_said_so():
    """One that follows the other is no overlap; each name counts once at any moment."""
    assert checkers.together({"source": [(0, 5), (8, 9)], "replica": [(5, 8)]}) == 0
    assert checkers.together({"source": [(0, 5), (8, 9)], "replica": [(4, 8.5)]}) == 1.5
    assert checkers.together({"a": [(0, 3)], "b": [(1, 4)], "c": [(2, 2.5)]}) == 2
    assert checkers.together({}) == 0


def test_a_reading_counts_until_the_next_one():
    """Or until the server was not there; for a moment only if nothing is known for long."""
    readings = [(9.8, True), (10.1, True), (10.4, True), (13.0, True), (13.3, False), (13.6, True)]

    assert succession.spans(readings, 10) == [(0.0, 0.9), (3.0, 3.3), (3.6, 4.1)]
    assert succession.spans(readings[:3], 10, [(10.5, 13.0)]) == [(0.0, 0.5)]
    assert succession.spans([(10.0, True), (11.2, False)], 10) == [(0.0, 1.2)], "an answer that was late"
    assert succession.spans([], 10) == []


def test_two_nodes_that_took_writes_at_once_are_a_figure_of_the_drill():
    """An expectation can bound it, and records that do not tell how often servers were read are as before."""
    result, verdict = judged(endpoint=ThroughEndpoint("haproxy", {}), writable=ONE_SECOND)

    assert result.figures["two_writable_s"] == 1 and verdict.verdict is Verdict.REFUTED
    assert "two nodes took writes for 1.0 s at once\n" in text(summed_up(result))


# --- how exactly it is known ------------------------------------------------------------------------------------------


def test_the_time_is_told_with_what_readings_cannot_see():
    """Each begin is that of a reading, and may be as early as the one before; each end that of the next one."""
    result, verdict = judged(writable=ONE_SECOND, read_every_s=0.4)

    assert verdict.verdict is Verdict.REFUTED
    assert "two nodes took writes for 1.0 s at once (between 0.6 and 1.4 s, as servers were read every 0.4 s)" in text(
        summed_up(result)
    )


def test_what_readings_cannot_see_is_named_where_none_was_seen():
    """The verdict holds as far as it can be seen, and says how far."""
    result, verdict = judged(writable={"node1": [(0.0, 5.0)], "node2": [(5.0, 6.0)]}, read_every_s=0.34)

    assert verdict.verdict is Verdict.HOLDS and "less than 0.4 s cannot be seen" in verdict.reason
    assert "at once (less than 0.4 s cannot be seen)" in text(summed_up(result))


@pytest.mark.parametrize(
    ("expected", "verdict"),
    [
        (NEVER_TWO, Verdict.UNKNOWN),
        (Expectation("few", "two_writable_s", at_most=0.5), Verdict.UNKNOWN),
        (Expectation("few", "two_writable_s", at_most=0.8), Verdict.HOLDS),
    ],
)
def test_a_time_shorter_than_two_readings_tell_is_unknown(expected, verdict):
    """It may be that the one ended before the other began."""
    _, found = judged(expected, writable={"node1": [(0.0, 5.0)], "node2": [(4.7, 6.0)]}, read_every_s=0.4)

    assert found.verdict is verdict and "between 0.0 and 0.7 s" in found.reason


def test_two_times_of_one_server_are_not_two_servers():
    """As they touch when each may have begun a reading earlier."""
    _, found = judged(writable={"node1": [(0.0, 2.0), (2.3, 4.0)], "node2": [(3.7, 6.0)]}, read_every_s=0.4)

    assert found.verdict is Verdict.UNKNOWN and "between 0.0 and 0.7 s" in found.reason


# --- what is not known ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("writable", "found"), [(ONE_SECOND, 1), ({"node1": [(0.0, 5.0)]}, 0)], ids=["would be red", "would be green"]
)
def test_a_server_that_was_not_read_makes_the_figure_unknown(writable, found):
    """With the time and the cause, whatever the other readings say."""
    assert judged(writable=writable)[0].figures["two_writable_s"] == found

    result, verdict = judged(writable=writable, unread={"node2": [(3.1, 5.5)]})

    assert verdict.verdict is Verdict.UNKNOWN and "two_writable_s" not in result.figures
    assert "node2 may have taken writes from 3.1 to 5.5 s" in verdict.reason
    assert "2.4 s without a reading" in verdict.reason and verdict.reason in text(summed_up(result))


@pytest.mark.parametrize("figure", ["failovers", "not_failed_over", "false_failovers", "left_to_do"])
def test_what_a_manager_did_is_unknown_where_a_server_was_not_read(figure):
    """A failover may have come and gone."""
    zero = Expectation("none", figure, equals=0)
    assert judged(zero, manager="none")[1].verdict is Verdict.HOLDS

    result, verdict = judged(zero, manager="none", unread={"node2": [(3.1, 5.5)]})

    assert verdict.verdict is Verdict.UNKNOWN and figure not in result.figures
    assert "manager       none" not in text(summed_up(result))


@pytest.mark.parametrize(
    ("promoted", "needed", "found"),
    [([], "", (0, 0, 0)), ([(4.0, "node3")], "", (1, 0, 1)), ([(4.0, "node3")], "node3", (1, 0, 0))],
)
def test_a_planned_change_is_no_failover_but_a_third_node_that_takes_writes_is_one(promoted, needed, found):
    """Its target takes writes, and on the way back the source before. A failover in the same step may be needed."""
    own = fault(2, 2, 5, 6)
    planned = msgspec.structs.replace(own.step, fault="switchover", targets=["node2"], also=[], failover=needed)
    took = [(2.5, "node2"), (5.2, "node1"), *promoted]
    acted = [msgspec.structs.replace(own, step=planned, promoted=took)]
    drill = msgspec.structs.replace(evidence().drill, manager="none", steps=[])
    result = judge(evidence(drill=drill, acted=acted, writable={"node1": [(0.0, 2.2), (5.2, 8.0)]}), HISTORY)

    figures = ("failovers", "not_failed_over", "false_failovers")
    assert tuple(result.figures[name] for name in figures) == found


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch):
    """Read one server at moments of a clock that stands still; return the readings, and what sets the clock."""
    time = SimpleNamespace(now=10.0)
    monkeypatch.setattr(clock, "timer", lambda: time.now)
    writes = TakesWrites(SimpleNamespace())
    writes._readings, writes._absent = {"node1": []}, {"node1": []}

    def read(begin, answer, end=None):
        def value(_sql):
            time.now = begin if end is None else end
            if isinstance(answer, Exception):
                raise LabError("no", "an answer") from answer
            return answer

        time.now = begin
        try:
            writes._read(SimpleNamespace(name="node1", value=value))
        except LabError:
            return False
        return True

    def over(at):
        writes._ended = at
        return writes.seen()

    return SimpleNamespace(read=read, over=over, writes=writes, time=time)


def refused():
    """Return the client's error where nothing listens."""
    error = pymysql.err.OperationalError(2003, "Can't connect")
    error.__context__ = ConnectionRefusedError()
    return error


def test_a_server_that_does_not_answer_in_time_was_not_read(asked):
    """It may take writes meanwhile: from the reading before until the one after."""
    slow = pymysql.err.OperationalError(2013, "timed out")
    slow.__context__ = TimeoutError()
    asked.read(10.1, 1)
    assert not asked.read(10.4, slow, 10.9)
    asked.read(10.1 + LONGEST_GAP_SECONDS + 0.2, 0)
    asked.read(12.1, 0)
    found = asked.over(12.4)

    assert found["unread"] == {"node1": [(0.1, 1.8)]}
    assert found["read_every_s"] == 0.3 and found["writable"] == {"node1": [(1.8, 2.6)]}


@pytest.mark.parametrize("state", ["exited", "paused", "running"])
def test_a_server_that_was_ended_or_frozen_cannot_take_writes(asked, state):
    """One that runs can, if the network to it is what is gone."""
    asked.read(10.1, 0)
    asked.read(10.3, pymysql.err.OperationalError(2003, "No route to host"), 13.0)
    lab = SimpleNamespace(node=lambda _name: SimpleNamespace(state=lambda: (state, 0)))
    asked.writes._is_running(lab, "node1")
    asked.read(13.2, 1)
    found = asked.over(13.3)

    assert found["unread"] == ({"node1": [(0.1, 3.2)]} if state == "running" else {})
    assert found["writable"] == {"node1": [(0.1, 0.6 if state == "running" else 0.3)]}


@pytest.mark.parametrize("error", [refused(), ConnectionResetError(), pymysql.err.OperationalError(2013, "ended")])
def test_a_server_at_which_nothing_listens_cannot_take_writes(asked, error):
    """As while it starts; that is no failover when it takes writes again."""
    asked.read(10.1, 0)
    asked.read(10.3, error, 14.0)
    asked.read(14.2, 0)

    assert asked.over(14.3)["unread"] == {} and asked.writes.begun() == []


@pytest.mark.parametrize(("first", "last"), [(12.0, 12.9), (10.1, 11.0)], ids=["the begin", "the end"])
def test_readings_cover_the_load(asked, first, last):
    """From its begin to its end; what was before it does not count."""
    asked.read(9.0, 1)
    asked.read(first, 1)
    asked.read(last, 1)

    assert asked.over(13.0)["unread"] == {"node1": [(0.0, 2.0) if first == 12.0 else (1.0, 3.0)]}


def test_what_makes_a_source_is_the_managers_to_set_once_it_acts_again(monkeypatch):
    """The lab had set it while it took back the old source; a second failover changes that."""
    address, acts = ("of this test", 4), []
    monkeypatch.setattr(requests_made, "_settings", {})
    monkeypatch.setattr(ByManager, "refuse_unmanaged", lambda _self: None)
    requests_made.note_setting(address, "read_only", "1")
    requests_made.note_setting(address, "sync_binlog", "1")
    nodes = SimpleNamespace(names=["source"], written_at=lambda: "source")
    node = SimpleNamespace(server=lambda: SimpleNamespace(address=address, dialect=dialects()["mariadb"]))
    lab = SimpleNamespace(manager=SimpleNamespace(manage=lambda: acts.append("manage")), node=lambda _name: node)
    (drill,) = drill_set.under_manager([drill_set.load("semisync", "two-failovers")], "keepalived", {})
    ByManager(lab, nodes, drill, print, lambda: 0.0, TakesWrites(lab)).resume()

    assert acts == ["manage"] and requests_made.settings_made(address).keys() == {"sync_binlog"}
