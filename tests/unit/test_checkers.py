"""Do the checkers find what hand-written histories hold, and nothing where they are good?"""

import math

import pytest
from replication_lab.model.drill import checkers
from replication_lab.model.drill.history import (
    Attempt,
    Copy,
    Invoked,
    Outcome,
    RowLook,
    StatementEnd,
    encode,
    parse,
    ranges,
)

GOOD, REFUSED, UNANSWERED = Outcome.ACKNOWLEDGED, Outcome.FAILED, Outcome.UNKNOWN


def attempt(number, outcome=GOOD, invoked=0.0, ended=0.1, node="node1", code=None) -> Attempt:
    return Attempt(number, 1, node, invoked, ended, outcome, code)


def copies(*rows, **options) -> list[Copy]:
    """Return a copy for each list of ids."""
    return [Copy(f"node{at}", ranges(ids), **options) for at, ids in enumerate(rows, 1)]


HISTORY = [attempt(1), attempt(2, REFUSED), attempt(3, UNANSWERED), attempt(4)]


# --- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [[1, 4], [1, 3, 4]])
def test_a_good_history_has_nothing_wrong(rows):
    """A row without an answer may be there or not; both are good."""
    figures, failures = checkers.rows(HISTORY, copies(rows, rows, rows), {})

    assert failures == []
    assert {figures[name] for name in ("lost", "phantoms", "duplicates", "diverged")} == {0}
    assert figures["unknown_committed"] == (3 in rows)


def test_an_acknowledged_row_missing_on_one_copy_is_lost():
    """One copy is enough."""
    assert checkers.lost(HISTORY, copies([1, 4], [1])) == {4}


def test_the_recovery_point_is_the_time_in_which_lost_rows_were_written():
    """From when the first was sent until the last was acknowledged; what was kept before and between does not count."""
    sent = [attempt(n, invoked=n, ended=n + 0.25) for n in (1, 2, 3, 4)] + [attempt(5, REFUSED, invoked=0)]

    assert checkers.rpo_seconds(sent, checkers.lost(sent, copies([1, 3], [1, 2, 3]))) == 2.25
    assert checkers.rpo_seconds(sent, set()) == 0


def test_a_refused_row_that_is_there_is_a_phantom():
    """Its client was told that it had failed."""
    assert checkers.phantoms(HISTORY, copies([1, 2, 4])) == {2}


def test_a_row_that_nobody_sent_is_a_phantom():
    """It came from somewhere."""
    assert checkers.phantoms(HISTORY, copies([1, 4], [1, 4, 99])) == {99}


def test_a_row_that_is_there_twice_is_a_duplicate():
    """On any copy."""
    assert checkers.duplicates(copies([1, 4], [1, 4, 4])) == {4}


def test_copies_that_differ_have_diverged():
    """By their rows, by the server's checksum, by the counter."""
    same = copies([1], [1])

    assert checkers.diverged(same) == []
    assert checkers.diverged(copies([1], [1], [1, 3])) == ["node3"]
    assert checkers.diverged([same[0], Copy("node2", ranges([1]), checksum=5)]) == ["node2"]
    assert checkers.diverged([same[0], Copy("node2", ranges([1]), counter=5)]) == ["node2"]


def test_a_counter_tells_lost_changes():
    """It must have been counted up once for each row that is there."""
    assert checkers.miscounted(copies([1, 4], [1, 4], counter=2)) == 0
    assert checkers.miscounted(copies([1, 4], [1, 4], counter=1)) == 1


# --- time -------------------------------------------------------------------------------------------------------------


def acknowledged(*ends, node="node1"):
    return [attempt(at, invoked=end - 0.1, ended=end, node=node) for at, end in enumerate(ends)]


def test_the_longest_stall_is_the_longest_time_without_an_answer():
    """Between two answers, before the first, after the last."""
    assert checkers.stall(acknowledged(1, 2, 6, 7), (0, 8)) == 4
    assert checkers.stall(acknowledged(5, 6), (0, 8)) == 5
    assert checkers.stall(acknowledged(1, 2), (0, 8)) == 6
    assert checkers.stall([], (0, 8)) == 8


def test_refusals_do_not_end_a_stall():
    """A fast error is no service."""
    refused = [attempt(9, REFUSED, ended=4.0)]

    assert checkers.stall([*acknowledged(1, 7), *refused], (0, 8)) == 6


def test_service_is_back_with_the_first_statement_sent_after_the_fault():
    """One that was under way before it does not count."""
    history = [attempt(1, invoked=0.9, ended=3.0), attempt(2, invoked=3.0, ended=3.5)]

    assert checkers.back_after(history, 1.0) == 2.5
    assert checkers.back_after(history, 4.0) is None


def served(*times, node="node1"):
    """Return an acknowledged statement for each (sent, acknowledged)."""
    return [attempt(at, invoked=sent, ended=ended, node=node) for at, (sent, ended) in enumerate(times)]


# The injection begins at 2 and has returned at 3.
@pytest.mark.parametrize(
    ("times", "rto", "outage"),
    [
        pytest.param([(0, 1), (1, 1.9), (1.9, 2.4), (5, 6)], 4, 3.6, id="served while it was injected"),
        pytest.param([(0, 1), (1, 1.5), (5, 6), (6, 9)], 4, 4.5, id="silent before it began"),
        pytest.param([(0, 1.9), (1.8, 5.9), (5.8, 6)], 4, 4, id="one that was under way does not hide it"),
        pytest.param([(n / 10, (n + 1) / 10) for n in range(60)], 1.1, 0.1, id="no outage at all"),
        pytest.param([(0, 1.9), (1.9, 2.1), (3, 3.5), (5, 8), (8, 9)], 1.5, 4.5, id="served once after it had begun"),
        pytest.param([(0, 1.9), (3, 4), (7, 9)], 2, 5, id="served again only when the fault was undone"),
        pytest.param([(0, 1.9), (3, 4)], 2, None, id="served once, and never again"),
        pytest.param([(0, 1.9), (1.9, 2.5)], None, None, id="never again"),
        pytest.param([(5, 6)], 4, None, id="never before"),
    ],
)
def test_an_outage_is_what_clients_saw_and_service_is_back_since_the_injection_began(times, rto, outage):
    """The time that an injection takes is part of the time without service."""
    figures, failures = checkers.service(served(*times), (0, 9), [(3, 6)], 2)

    assert failures == []
    assert figures.get("rto_s") == rto
    assert figures.get("outage_s") == figures.get("outage_s.node1") == outage


def test_an_outage_of_the_service_ends_where_any_node_serves():
    """That of one node's clients lasts until their own next write."""
    history = [*served((0, 1.9), (7, 8)), *served((0, 1.8), (4, 5), (5, 7.5), node="node2")]
    figures, _ = checkers.service(history, (0, 9), [(3, 6)], 2)

    assert (figures["outage_s"], figures["outage_s.node1"], figures["outage_s.node2"]) == (3.1, 6.1, 3.2)


def test_records_without_the_injections_begin_are_judged_as_before():
    """Their time without service begins when the injection had returned, and they have no outage."""
    figures, _ = checkers.service(served((0, 1), (5, 6)), (0, 9), [(3, 6)])

    assert figures["rto_s"] == 3
    assert "outage_s" not in figures


def test_the_slowing_is_a_ratio_of_medians():
    """What was sent within the fault over what had ended before it."""
    before = [attempt(at, invoked=at, ended=at + 0.1) for at in range(3)]
    during = [attempt(9, invoked=5.0, ended=5.3)]

    assert checkers.latency_ratio([*before, *during], [(4, 6)]) == pytest.approx(3)
    assert checkers.latency_ratio(before, [(4, 6)]) is None
    at_once = [attempt(9, invoked=1, ended=1)]
    assert checkers.latency_ratio([*at_once, *during], [(4, 6)]) is None, "too short for the clock"


def test_the_rate_that_is_kept_counts_what_came_not_how_long_it_took():
    """One a second before, one in two seconds with the fault; without anything before there is nothing to compare."""
    before = [attempt(at, invoked=float(at), ended=at + 0.1) for at in range(4)]
    during = [attempt(9, invoked=5.0, ended=5.1)]

    assert checkers.throughput_ratio([*before, *during], [(4, 6)]) == pytest.approx(0.5)
    assert checkers.throughput_ratio(before, [(4, 6)]) == 0
    assert checkers.throughput_ratio(during, [(4, 6)]) is None


def test_what_clients_saw_is_counted_by_node_and_time():
    """Outcomes and error numbers, over all and within the fault."""
    history = [attempt(1), attempt(2, REFUSED, 5, 5, "node3", 1047), attempt(3, REFUSED, 5, 5, "node3", 1047)]
    figures, failures = checkers.service(history, (0, 8), [(4, 6)])

    assert failures == []
    assert (figures["acknowledged"], figures["failed"], figures["error.1047"]) == (1, 2, 2)
    assert (figures["during.node3.error.1047"], figures["during.node1.acknowledged"]) == (2, 0)


def test_a_checker_that_fails_leaves_its_figure_out():
    """It is named, and the others go on: a history without copies says nothing of rows."""
    figures, failures = checkers.rows(HISTORY, [], {})
    alone, told = checkers.checked({"good": lambda: 1, "bad": lambda: 1 / 0})

    assert figures == {} and failures == [checkers.NO_COPIES]
    assert alone == {"good": 1}
    assert "bad failed: ZeroDivisionError" in told[0]


# --- reads ------------------------------------------------------------------------------------------------------------


def look(at, seen, reader=1, writer=1, node="replica"):
    return RowLook(reader, writer, node, at, at + 0.1, seen)


# Client 1 writes 1, 2, 3, each acknowledged half a second after it was sent.
WRITTEN = [attempt(number, invoked=number, ended=number + 0.5) for number in (1, 2, 3)]


def test_a_read_is_stale_that_misses_what_was_acknowledged_before_it():
    """Not one that came while the row was still under way."""
    fresh, early, stale = look(1.6, 1), look(2.4, 1), look(2.6, 1)

    assert checkers.stale_reads(WRITTEN, [fresh, early, stale]) == [stale]
    assert checkers.stale_reads(WRITTEN, [look(9, None)]) == [look(9, None)]
    assert checkers.stale_reads(WRITTEN, [look(0.5, None), look(9, 3)]) == []


def test_the_true_lag_is_that_of_the_oldest_row_which_a_read_missed():
    """Row 2 was acknowledged at 2.5; a read that missed nothing shows no lag."""
    assert checkers.stale_s(WRITTEN, [look(2.6, 1), look(4, 1), look(9, 3)]) == 1.5
    assert checkers.stale_s(WRITTEN, [look(4, None)]) == 2.5
    assert checkers.stale_s(WRITTEN, [look(9, 3)]) == 0


def test_a_newer_row_than_was_acknowledged_is_not_stale():
    """At AFTER_COMMIT others read it before its writer is answered."""
    assert checkers.stale_reads(WRITTEN, [look(1.2, 1), look(2.9, 3)]) == []


def test_only_the_writers_own_stale_reads_break_read_your_write():
    """Another client was promised less."""
    own, others = look(9, 2), look(9, 2, reader=7)

    assert checkers.read_your_writes_violations(WRITTEN, [own, others]) == [own]
    assert checkers.read_your_writes_violations(WRITTEN, [look(9, 3)]) == []


def test_reads_go_back_in_time_for_one_reader_at_one_place():
    """Two readers may see different things, and so may one on two nodes."""
    back = look(3, 1)

    assert checkers.monotonic_read_violations([look(1, 1), look(2, 2), back]) == [back]
    assert checkers.monotonic_read_violations([look(1, 1), look(2, None)]) == [look(2, None)]
    assert checkers.monotonic_read_violations([look(1, 2), look(2, 1, reader=7), look(3, 1, node="other")]) == []
    assert checkers.monotonic_read_violations([look(1, None), look(2, 1), look(3, 1), look(4, 3)]) == []


def test_a_row_that_was_seen_and_is_nowhere_is_a_phantom_read():
    """One that is on some copy is none: the other copy is behind."""
    copies = [Copy("a", [(1, 2)]), Copy("b", [(1, 1)])]

    assert checkers.phantom_reads([look(1, 1), look(2, 2), look(3, 3), look(4, None)], copies) == {3}


def test_the_figures_of_reads_are_there_where_somebody_read():
    """A checker that fails omits its own figure and is named: without copies the missing rows are unknown."""
    looks = [look(9, 2), look(10, 1)]
    figures, failures = checkers.reads(WRITTEN, looks, [Copy("a", [(1, 3)])], mended=20)

    assert checkers.reads(WRITTEN, [], [], 20) == ({}, [])
    assert figures["looks"] == figures["stale_reads"] == figures["read_your_writes_violations"] == 2
    assert (figures["monotonic_read_violations"], figures["phantom_reads"], figures["recovered_reads"]) == (1, 0, 0)
    assert failures == []
    assert "phantom_reads failed" in checkers.reads(WRITTEN, looks, [], 20)[1][0]


def test_what_an_old_source_shows_after_its_start_is_counted_apart():
    """It recovers what it had not acknowledged; that it was seen before the loss is another matter."""
    looks = [look(1, 7), look(9, 8)]
    figures, _ = checkers.reads(WRITTEN, looks, [Copy("a", [(1, 3)])], mended=5)

    assert (figures["phantom_reads"], figures["recovered_reads"]) == (1, 1)


def test_a_copy_is_ahead_of_the_one_that_it_came_from():
    """A leaf must hold nothing that its relay has not."""
    source, relay = Copy("source", [(1, 9)]), Copy("relay", [(1, 5)], source="source")

    assert checkers.ahead([source, relay, Copy("leaf", [(1, 6)], source="relay")]) == {"relay": 0, "leaf": 1}
    assert checkers.rows([], [source, relay], {})[0]["ahead.relay"] == 0


def test_the_longest_statement_is_one_that_was_acknowledged():
    """A refusal after a long wait is another matter."""
    assert checkers.longest([attempt(1, invoked=0, ended=2), attempt(2, REFUSED, 0, 9)]) == 2
    assert checkers.longest([attempt(2, REFUSED, 0, 9)]) is None


# --- the history on disk ----------------------------------------------------------------------------------------------


def lines(*events):
    return [encode(event) for event in events]


def test_a_history_is_read_as_it_was_written():
    """What was invoked and never ended has an unknown outcome."""
    written = lines(
        Invoked(1, 1, "node1", 0.5, "t"), Invoked(2, 2, "node2", 0.6, "t"), StatementEnd(1, 0.7, REFUSED, 1047)
    )

    attempts, looks, damage = parse(written)

    assert attempts == [
        Attempt(1, 1, "node1", 0.5, 0.7, REFUSED, 1047),
        Attempt(2, 2, "node2", 0.6, math.inf, UNANSWERED, None),
    ]
    assert looks == [] and damage == ""


def test_looks_are_read_beside_the_statements():
    """In their order, an unanswered query being none of them."""
    look = RowLook(1, 2, "replica", 0.8, 0.9, None)

    assert parse(lines(Invoked(1, 1, "node1", 0.5, "t"), look))[1] == [look]


def test_a_torn_last_line_is_left_out():
    """As SIGKILL leaves it."""
    whole, torn = lines(Invoked(1, 1, "node1", 0.5, "t"), StatementEnd(1, 0.7, GOOD))

    assert parse([whole, torn[:-5]])[0][0].outcome is UNANSWERED


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ([b"{}\n", b"\n"], "line 1 of the ledger cannot be read"),
        (lines(StatementEnd(1, 0.7, GOOD)), "not invoked"),
        (lines(*[Invoked(1, 1, "node1", 0.5, "t")] * 2), "invokes 1 again"),
    ],
)
def test_a_history_that_cannot_be_ends_at_that_line(written, found):
    """With the line's number; what came before it stays."""
    assert found in parse(written).damage


@pytest.mark.parametrize("ids", [[], [5], [3, 1, 2], [1, 2, 2, 3], [1, 1], [1, 5, 6]])
def test_ranges_hold_every_id_as_often_as_it_came(ids):
    """A copy's rows survive being written down."""
    assert sorted(Copy("node1", ranges(ids)).ids) == sorted(ids)
