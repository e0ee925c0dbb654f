"""Do the pictures of a report show what the figures say?"""

import re
from dataclasses import replace

import msgspec
import pytest
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.statistics import Interval
from replication_lab.model.experiment.curves import Curves
from replication_lab.model.record.record import Record
from replication_lab.report import chart, charts, forest, strips, summarise, svg
from replication_lab.report.chart import Band, Chart, Line, Strip
from replication_lab.report.forest import against
from replication_lab.report.rows import EffectRow, FigureRow
from replication_lab.report.svg import Scale

from tests.unit.synthetic import experiment, record, run

# --- scales -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "log", "expected"),
    [
        (0, 10, False, [0, 2, 4, 6, 8, 10]),
        (0, 0.7, False, [0, 0.2, 0.4, 0.6]),
        (1, 1000, True, [1, 3, 10, 30, 100, 300, 1000]),
        (0.001, 1e6, True, [0.001, 0.1, 10, 1000, 100_000]),
        (80, 120, True, [80, 90, 100, 110, 120]),
    ],
)
def test_an_axis_has_round_figures(low, high, log, expected):
    """A few of them, evenly spread over the scale."""
    assert Scale(low, high, 0, 100, log).ticks(7 if log else 6) == expected


def test_a_scale_puts_what_is_outside_at_its_end():
    """Nothing is drawn outside the picture; zero has no place on a log scale."""
    on = Scale(1, 100, 10, 110, log=True)

    assert [on.at(value) for value in (1, 10, 100, 1000, 0)] == [10, 60, 110, 110, 10]


def test_an_upright_scale_runs_from_below():
    """The larger the value, the higher its place, which is a smaller number."""
    assert Scale(0, 10, 200, 0).at(10) == 0


# --- the forest plot --------------------------------------------------------------------------------------------------


def test_a_value_is_drawn_as_a_multiple_of_its_bound():
    """0.73 against 0.9 is left of the bound; the claim holds on the right of it."""
    bar = against("t", "note", (0.73, 0.66, 0.81), (0.9, None))

    assert (bar.value, bar.low, bar.high) == pytest.approx((0.73 / 0.9, 0.66 / 0.9, 0.9))
    assert (bar.least, bar.most) == (1, float("inf"))


def test_two_bounds_are_drawn_around_their_middle():
    """As far to the left as to the right, on a log scale."""
    bar = against("t", "good", (1, 0.99, 1.01), (0.8, 1.25))

    assert (bar.least, bar.most) == pytest.approx((0.8, 1.25))


@pytest.mark.parametrize(
    ("figures", "bounds"), [((39, 29, 49), (0, None)), ((1, -1, 2), (1, None)), ((1, 1, 1), (None, None))]
)
def test_what_has_no_logarithm_has_no_picture(figures, bounds):
    """A bound of zero, an interval around zero, no bound at all: the figures stand in the table."""
    assert against("t", "good", figures, bounds) is None


def test_an_interval_that_does_not_hold_is_never_cut_off():
    """The scale has room for each of them; one that holds far away is an arrow."""
    bad = against("t", "bad", (0.2, 0.1, 0.4), (1, None))
    near = [against("t", "good", (1.1, 1.05, 1.2), (1, None))] * 9
    far = against("t", "good", (50, 40, 60), (1, None))
    on = forest.scale([bad, *near, far])

    assert on.holds(0.1) and not on.holds(50)
    assert "polygon" in forest.row(far, on) and 'class="mark good"' in forest.row(far, on)


def test_the_end_of_an_interval_is_on_the_right_side_of_the_bound():
    """UNKNOWN straddles it, HOLDS is beyond it."""
    bars = {
        "doubt": against("t", "doubt", (1.05, 0.98, 1.1), (1, None)),
        "good": against("t", "good", (1.1, 1.05, 1.2), (1, None)),
    }
    on = forest.scale(list(bars.values()))
    ends = {
        tone: [float(x) for x in re.search(r'<line x1="([\d.]+)" y1="12" x2="([\d.]+)"', forest.row(bar, on)).groups()]
        for tone, bar in bars.items()
    }

    assert ends["doubt"][0] < on.at(1) < ends["doubt"][1]
    assert on.at(1) < ends["good"][0]


def test_each_tone_has_a_marker_of_its_own():
    """Colour is not the only key: shape and filling differ."""
    drawn = {tone: str(svg.elements().marker(shape, 5, 5)) for tone, shape in forest.MARKERS.items()}

    assert len(set(drawn.values())) == len(drawn) == len(forest.SYMBOLS)


def test_the_bars_of_a_run_are_its_claims():
    """Each claim about a ratio has a picture, and the picture's title has the verdict and the figures."""
    summary = summarise(experiment(), record(4))
    plot = forest.of_claims(summary.claims)
    told = {row.id: picture for row, picture in zip(summary.claims, plot.pictures, strict=True)}
    ratio = next(row for row in summary.claims if row.least == 0.95)

    assert "HOLDS: measured" in told[ratio.id] and "0.95–1" in told[ratio.id]
    assert [row.id for row in summary.claims if told[row.id] is None] == [
        row.id for row in summary.claims if row.interval is None
    ]


def test_bounds_are_those_that_decided():
    """A claim holds exactly if its interval lies between the bounds that the picture shows."""
    for row in summarise(experiment(), record(4)).claims:
        if row.interval:
            inside = (row.least or 0) <= row.interval.low and row.interval.high <= (row.most or float("inf"))
            assert inside == (row.verdict == "HOLDS"), row.id


def test_an_effect_is_drawn_around_no_difference():
    """A ratio of 0.5 lies left of 1, and nothing is shaded, since there is no bound."""
    half = Interval(0.5, 0.4, 0.625, n=3, level=0.95)
    bar = forest._effect(
        EffectRow(
            **{"engine": "mariadb", "changed": "sync_binlog=1", "common": "", "case": "one", "baseline": "other"},
            **{"known": True, "claims": [], "sentence": "it halves the throughput"},
            **{"throughput_ratio": half, "latency_p50_difference_ms": None},
        )
    )

    assert (bar.value, bar.least, bar.most) == pytest.approx((0.5, 1, 1))


# --- charts of lines --------------------------------------------------------------------------------------------------

DRAWN = Chart(
    name="c",
    told="Lag & <state>",
    x="s",
    y="rows",
    lines=[Line("one", [(0, 1), (1, None), (2, 3)], 0), Line("two", [(0, 2), (2, 1)], 1, steps=True)],
    bands=[Band(0.5, 1, "cut"), Band(0.6, 1, "kill")],
    strips=[Strip("node", [(0, 1, "ON", "good"), (1, 2, "OFF", "bad")])],
)


def test_a_chart_says_what_it_shows():
    """A title, axes, a key for each line, each fault and each state, as text and with its own dash."""
    drawn = chart.drawn(DRAWN)

    assert "<title>Lag &amp; &lt;state&gt;</title>" in drawn
    for word in ("s", "rows", "one", "two", "cut", "kill", "node", "ON", "OFF"):
        assert f">{word}</text>" in drawn
    assert 'class="line s1"' in drawn and 'class="line s2"' in drawn


def test_a_gap_in_the_figures_is_a_gap_in_the_line():
    """No value is made up between two that were measured."""
    paths = re.findall(r'<path d="([^"]*)" class="line s1"', chart.drawn(DRAWN))

    assert len(paths) == 2


def test_the_script_gets_the_same_figures():
    """What is drawn by the page's script is what the picture shows."""
    found = chart.data(DRAWN)

    assert found["lines"][0]["y"] == [1, None, 3] and found["lines"][0]["x"] == [0, 1, 2]
    assert found["bands"] == [[0.5, 1, "cut", "fault"], [0.6, 1, "kill", "fault"]]


def test_a_figure_that_is_not_finite_is_left_out():
    """JSON has no NaN, and a picture no place for it."""
    odd = replace(DRAWN, lines=[Line("one", [(0, float("nan")), (1, 2.0)])])

    assert chart.data(odd)["lines"][0]["y"] == [None, 2]
    assert "nan" not in chart.drawn(odd)


# --- the charts of an experiment --------------------------------------------------------------------------------------


def curved(points=None):
    """Return the summary of the run for an experiment with curves."""
    lines = {"AFTER_SYNC": points or {n: f"after-sync-85ms-{n}" for n in (1, 4, 16, 64)}}
    panels = {"85 ms": lines, "LAN": {"bare": {1: "semisync-direct"}}}
    asked = Curves.over("Throughput by number of clients", "clients", panels)
    return summarise(experiment(curves=(asked,)), record(4))


def test_curves_are_drawn_by_what_the_experiment_declares():
    """A panel for each title, a line for each label, and the law beside them."""
    summary = curved()
    far, near = charts.curves("mariadb", summary.curves[0], summary)

    assert [line.label for line in far.lines] == ["AFTER_SYNC", "predicted"]
    assert [line.label for line in near.lines] == ["bare"]
    assert (far.x, far.y, list(far.x_ticks)) == ("clients", "throughput (1/s)", [1, 4, 16, 64])
    assert all(low < y < high for (_, y), (low, high) in zip(far.lines[0].points, far.lines[0].ends, strict=True))


def test_cases_on_a_curve_are_left_out_of_the_other_charts():
    """Forty points are a curve and not forty rows."""
    names = [case.name for case in charts.cases("mariadb", curved())]

    assert "after-commit-85ms-1" in names
    assert "after-sync-85ms-16" not in names and "semisync-direct" not in names


def test_a_curve_shows_only_what_was_measured():
    """A preset that leaves cases out leaves their points out, and a panel without any is not there."""
    ran = Record([event for event in record(4).events if getattr(event, "case", "") != "semisync-direct"])
    asked = Curves.over(
        "T", "clients", {"85 ms": {"a": {1: "after-sync-85ms-1"}}, "LAN": {"b": {1: "semisync-direct"}}}
    )
    summary = summarise(experiment(curves=(asked,)), ran)

    assert [panel.title for panel in summary.curves[0].panels] == ["85 ms"]
    assert list(charts.curves("mysql-5.5", summary.curves[0], summary)) == []


def test_latencies_are_drawn_six_cases_a_chart():
    """More lines could not be told apart."""
    summary = summarise(experiment(), record(4))
    found = list(charts.latency("mariadb", summary, record(4)))

    assert all(len(each.lines) <= chart.LOOKS for each in found)
    assert sum(len(each.lines) for each in found) == len(summary.cases)


def test_a_name_that_several_cases_share_is_told_with_the_case():
    """Two lines of one key would be one riddle."""
    summary = summarise(experiment(), record(1))
    same = [msgspec.structs.replace(case, about="semi-sync") for case in summary.cases[:2]]

    assert list(charts.words(same).values()) == [f"semi-sync ({case.name})" for case in same]
    assert len(set(charts.words(summary.cases).values())) == len(summary.cases)


def test_the_run_over_time_shows_which_measurements_do_not_count():
    """A noisy one is there, with another marker."""
    noisy = [
        msgspec.structs.replace(event, noise=Noise(quiet=False, why="steal")) if number % 7 == 3 else event
        for number, event in enumerate(record(3).measurements)
    ]
    (found,) = charts.over_time("mariadb", Record([*record(3).events[:2], *noisy]))

    assert [line.label for line in found.lines] == ["quiet, counts", "noisy, does not count"]
    assert sum(len(line.points) for line in found.lines) == len(noisy)


def test_charts_are_left_out_when_there_is_nothing_to_draw():
    """A record without measurements has no charts, and no error."""
    empty = Record([run()])

    assert charts.of_engine("mariadb", summarise(experiment(), empty), empty) == []


# --- pictures in rows -------------------------------------------------------------------------------------------------


def test_published_and_predicted_figures_have_marks_of_their_own():
    """Measured, predicted and published differ by shape."""
    row = FigureRow(value=11, low=10.9, high=11.1, predicted=11.7, published=11.5)
    drawn = strips.figure(row, strips.scale(strips.figures_of(row)), "t")

    assert all(f'class="{mark}"' in drawn for mark in ("dot s1", "predicted", "published", "ends s1"))


def test_a_row_without_a_positive_figure_has_no_scale():
    """A log scale needs one."""
    assert strips.scale([None, 0.0]) is None


def test_a_spark_leaves_out_what_is_not_known():
    """And shades the fault."""
    drawn = strips.spark([1, None, 2], [(0.3, 0.6)], "t")

    assert drawn.count("M") == 2 and 'class="band"' in drawn
