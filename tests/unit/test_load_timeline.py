"""Is a measured load counted by second as a person counts it, recorded, and drawn with its rounds and cases?"""

import re

import pytest
from replication_lab.experiments import load
from replication_lab.model.core.noise import Noise
from replication_lab.model.drill.evidence import Looked, View
from replication_lab.model.question.load import Moments
from replication_lab.model.record import load_timeline
from replication_lab.model.record.load_timeline import Answered, LoadTimeline, Stay, timeline_of, widened
from replication_lab.model.record.record import Record, written
from replication_lab.report import page, round_timelines, summarise
from replication_lab.report.chart import Chart
from replication_lab.workloads.inserts import parse

from tests.unit.synthetic import LAN, WAN, experiment, lab, measurement, record, run
from tests.unit.valid_page import check

# The reports are those of long runs.
pytestmark = pytest.mark.whole

ON, OFF = View("semi-sync ON"), View("semi-sync OFF")
# Counted by hand below: one client that began at 100.
PRINTED = "client 100.000000 102.400000 300000 500000 100000 900000\nends 400000 500000 100000 1400000\nlost 1 101.2\n"
RAN = (99.9, 102.5)


def looks(node, *found):
    """Return what a node said at each moment."""
    return [Looked(at, node, view) for at, view in found]


# --- counted ----------------------------------------------------------------------------------------------------------


def test_a_commit_counts_in_the_second_in_which_it_was_answered():
    """0.4, 0.9, 1.0 and 2.4 s after the begin; the last second is shorter. A lost attempt counts when it was lost."""
    moments = parse(PRINTED).moments
    found = timeline_of(moments, [], RAN, 0.0)

    assert found.load == found.length == 2.4
    assert [(each.commits, each.lost) for each in found.seconds] == [(2, 0), (1, 1), (1, 0)]
    assert [each.p50_ms for each in found.seconds] == [400, 100, 900]


def test_clients_that_tell_no_times_have_no_timeline():
    """A load's figures do not depend on it."""
    found = parse(PRINTED.replace("ends 400000", "ends"))

    assert found.moments is None and found.commits == 4 and found.lost == 1


def test_no_commit_is_left_out_or_counted_twice():
    """Also those at the load's very end, and in a load shorter than a second."""
    for length in (0.2, 1.0, 7.5):
        commits = [(50 + number * length / 40, 1.0) for number in range(41)]
        found = timeline_of(Moments(50, 50 + length, commits), [], (49, 60), 0.0)
        assert sum(each.commits for each in found.seconds) == 41


def test_a_second_without_a_commit_has_no_latency():
    """Nothing is made up."""
    found = timeline_of(Moments(0, 3, [(0.5, 8.0), (2.5, 8.0)]), [], (0, 3), 0.0)

    assert found.seconds[1] == Answered(0)


# --- states -----------------------------------------------------------------------------------------------------------


def test_equal_views_are_one_state_until_it_changes():
    """From the first look to the last one that said the same; a look before the load is its begin."""
    looked = looks("source", (99.8, ON), (100.9, ON), (101.9, OFF)) + looks("replica", (100.5, View("replicating")))
    found = timeline_of(parse(PRINTED).moments, looked, RAN, 0.0)

    assert found.states == [
        Stay("replica", 0.5, 0.5, View("replicating")),
        Stay("source", 0.0, 0.9, ON),
        Stay("source", 1.9, 1.9, OFF),
    ]


def test_a_node_that_was_silent_in_between_has_two_states():
    """It may have been anything meanwhile."""
    looked = looks("source", (0.0, ON), (1.0, ON), (9.0, ON))
    found = timeline_of(Moments(0, 10, []), looked, (0, 10), 0.0)

    assert [(stay.begin, stay.end) for stay in found.states] == [(0, 1), (9, 9)]


def test_a_queue_of_another_length_is_no_other_state():
    """It is of another length at nearly each reading; the longest one is a figure."""
    looked = looks("node1", *((at, View("Primary", 3, queues={"receive": many})) for at, many in [(1, 0), (2, 9)]))
    found = timeline_of(Moments(0, 3, []), looked, (0, 3), 0.0)

    assert [(stay.begin, stay.end, stay.view.queues) for stay in found.states] == [(1, 2, {})]


def test_a_clock_of_another_machine_is_set_by_the_begin_of_the_load():
    """The engine in a virtual machine has its own; looks are of the program's clock."""
    looked = looks("source", (5001.0, ON))
    found = timeline_of(parse(PRINTED).moments, looked, (5000.0, 5002.6), 0.0)

    assert found.states == [Stay("source", 1.0, 1.0, ON)]


def test_what_replicas_said_while_they_were_waited_for_is_kept():
    """A load that ends when each replica has applied everything."""
    looked = looks("replica", (0.5, View("replicating", behind_s=0)), (2.5, View("replicating", behind_s=1)))
    found = timeline_of(Moments(0, 2, [(1, 1.0)]), looked, (0, 5), load_timeline.waited_after({"lag_s": 1.5}))

    assert (found.load, found.length) == (2, 3.5)
    assert [stay.view.behind_s for stay in found.states] == [0, 1]


def test_wider_intervals_have_all_commits_and_the_highest_percentiles():
    """The sum, the middle one of the medians, and the worst second."""
    seconds = [Answered(2, 0, 1.0, 2.0, 3.0), Answered(0, 4), Answered(1, 0, 5.0, 9.0, 9.0), Answered(7, 0, 1, 1, 1)]

    assert widened(seconds, 1) == seconds
    assert widened(seconds, 3) == [Answered(3, 4, 5.0, 9.0, 9.0), seconds[3]]


# --- recorded ---------------------------------------------------------------------------------------------------------


def test_a_run_records_the_timeline_of_each_load(undisturbed):
    """Of those that consist of transactions; all commits are in it, and each node's state."""
    _, made = undisturbed(load("semisync_wan"))
    timed = [m for m in made.measurements if "latency_ms" in m.samples]

    assert timed
    for m in timed:
        assert sum(each.commits for each in m.timeline.seconds) == m.figures["commits"]
        assert {stay.node for stay in m.timeline.states} == {"source", "replica"}
    assert Record.parse(written(made.events)).measurements == made.measurements


def test_an_old_measurement_has_no_timeline():
    """Schema 5 and before; it reads and is judged as ever."""
    opening, old = written([run(), measurement("none", 1)])
    older = [opening.replace(b'"schema":7', b'"schema":5'), old.replace(b',"timeline":null', b"")]

    assert Record.parse(older).measurements == [measurement("none", 1)]


# --- drawn ------------------------------------------------------------------------------------------------------------


def timed(case, number, seconds=3, views=(), **parts):
    """Return a measurement with so many seconds, its rate from its figures."""
    of = measurement(case, number, **parts)
    rate = round(of.figures["throughput"])
    found = [Answered(rate, 0, 1000 / rate, 1200 / rate, 1500 / rate) for _ in range(seconds)]
    states = [Stay("source", 0.4, seconds - 0.4, ON), *views]
    return measurement(case, number, **parts, timeline=LoadTimeline(float(seconds), found, seconds, states))


def of_run(*measurements) -> Record:
    return Record([run(), lab(), *measurements])


def drawn(made: Record, engine="mariadb") -> dict[str, Chart]:
    """Return the charts by what they show."""
    known = round_timelines.measured(engine, made)
    rounds = round_timelines.rounds_of(known, {(engine, "none"): "no replica"}, "commit")
    return {each.name.rpartition("-")[2]: each for each in round_timelines.charts(rounds)}


def test_rounds_and_cases_are_bands_over_all_loads():
    """One load after another; a noisy one says so, and its round has both."""
    noisy = Noise(quiet=False, why="steal")
    made = of_run(timed("none", 1, noise=noisy), timed("none", 1), timed("async-85ms", 1), timed("none", 2))
    found = drawn(made)

    assert [(band.begin, band.end, band.label, band.kind) for band in found["commits"].bands] == [
        (0, 9, "round 1", "round"),
        (9, 12, "round 2", "round odd"),
        (0, 3, "no replica: noisy, does not count", "case noisy"),
        (3, 6, "no replica", "case"),
        (6, 9, "async-85ms", "case"),
        (9, 12, "no replica", "case"),
    ]
    assert [band.label for band in found["latency"].bands] == ["round 1", "round 2"]
    assert set(found) == {"commits", "latency", "states"}


def test_no_line_leads_from_one_load_to_the_next():
    """Each has an end of its own, and a gap after it."""
    made = of_run(timed("none", 1, seconds=2), timed("none", 2, seconds=1))
    points = drawn(made)["commits"].lines[0].points

    assert [at for at, _ in points] == [0, 1, 2, 2, 2, 3, 3]
    assert [rate is None for _, rate in points] == [False, False, False, True, False, False, True]


def test_errors_and_lag_are_drawn_where_there_are_any():
    """A replica that follows, then lags."""
    views = [
        Stay("replica", 0, 1, View("replicating", behind_s=0)),
        Stay("replica", 2, 3, View("replicating", behind_s=4)),
    ]
    made = of_run(timed("none", 1, views=views))
    made.measurements[0].timeline.seconds[1] = Answered(5, 3)
    found = drawn(made)

    assert [lag for _, lag in found["lag"].lines[0].points] == [0, 0, 4, 4, None]
    assert max(rate or 0 for _, rate in found["errors"].lines[0].points) == 3
    assert "No replica" not in found["states"].about


def test_a_state_lasts_over_all_loads_in_which_nothing_else_was_said():
    """And a node that did not answer is silent, not as before."""
    gone = [Stay("replica", 0, 1, View("replicating"))]
    made = of_run(timed("none", 1, seconds=9, views=gone), timed("none", 2, seconds=9))
    strips = {strip.label: strip.spans for strip in drawn(made)["states"].strips}

    assert strips["replica"] == [(0, 3.5, "replicating", "good"), (3.5, 9, "no answer", "bad")]
    assert strips["source"] == [(0, 18, "semi-sync ON", "good")]


def test_rates_far_apart_have_a_log_scale():
    """A LAN's and a WAN's; a second without a commit is a gap in it."""
    near, far = timed("none", 1), timed("after-sync-85ms-1", 1)
    far.timeline.seconds[1] = Answered(0)
    found = drawn(of_run(near, far))["commits"]

    assert found.log_y and None in [rate for _, rate in found.lines[0].points[4:7]]


@pytest.fixture(scope="module")
def longest() -> Record:
    """Return a run on two engines with 12 cases, 12 rounds and 20 s each: 96 minutes of load."""
    engines = ("mariadb", "mysql-5.5")
    views = [Stay("replica", 0.3, 19.0, View("replicating", behind_s=1))]
    return Record(
        [run(engines)]
        + [lab(engine) for engine in engines]
        + [
            timed(case, number, 20, views, engine=engine)
            for engine in engines
            for number in range(1, 13)
            for case in [*LAN, *WAN]
        ]
    )


def test_the_report_of_a_long_run_stays_small(longest):
    """At most 600 KiB, folded, valid, and the same bytes from the same record."""
    html = page.render(summarise(experiment(), longest), longest)

    assert len(html.encode()) <= 600 << 10
    assert page.render(summarise(experiment(), longest), longest) == html
    assert re.search(r'<details class="seconds">\s*<summary>Second by second: 144 measurements in ', html)
    check(html)


@pytest.mark.parametrize(
    ("room", "rounds", "widths"), [(1 << 20, 12, "of 1 s"), (100 << 10, 12, "of 20 s"), (70 << 10, 6, "of 10 s")]
)
def test_what_has_no_room_is_drawn_with_wider_intervals_then_with_fewer_rounds(longest, room, rounds, widths):
    """The first rounds, whole; never a page that is too large."""
    known = round_timelines.measured("mariadb", longest)
    found = round_timelines.fitting(known, {}, "commit", room)

    assert (found.rounds, found.whole) == (rounds, 12)
    assert widths in found.charts[0].about


def test_a_page_without_any_room_says_where_the_seconds_are(longest, monkeypatch):
    """In the record."""
    monkeypatch.setattr(page, "MOST_BYTES", 1000)

    assert "no room for the loads second by second" in page.render(summarise(experiment(), longest), longest)


def test_a_report_without_timelines_does_not_speak_of_them():
    """As of old records."""
    made = record(2)

    assert "Second by second" not in page.render(summarise(experiment(), made), made)
