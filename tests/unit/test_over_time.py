"""Are runs that can be compared put in one series, and is a change of level found where there is one?"""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from replication_lab import cli
from replication_lab import runs as running
from replication_lab.model.comparing.digest import encode
from replication_lab.model.comparing.over_time import FEWEST_RUNS, change_points, history
from replication_lab.model.core.errors import LabError
from replication_lab.report import over_time
from replication_lab.world import catalogue
from scipy.special import bdtrc

from tests.records import golden
from tests.unit import change_point_simulation
from tests.unit.synthetic_digests import on_another_machine, run

# Series of simulated runs.
pytestmark = pytest.mark.whole

SERIES = 300


def runs(*rates: float, **others):
    """Return a run for each rate, in this order."""
    return [
        run(rate, 0.01, seed=number, run=f"run-{number}", started=f"2026-11-{number + 1:02d}", **others)
        for number, rate in enumerate(rates)
    ]


def of(series, name="throughput:none"):
    return next(each for each in series if each.of == name)


def test_a_series_without_a_change_shows_one_in_one_per_cent_of_the_cases_at_most():
    """By the one-sided binomial test of the simulated share."""
    wrong = round(change_point_simulation.false_alarms(12, SERIES) * SERIES)

    assert bdtrc(wrong - 1, SERIES, 0.01) > 0.001


def test_a_change_of_ten_per_cent_shows_within_a_few_runs():
    """At 2 % of noise between runs, three runs at the new level suffice in half of the series."""
    assert np.median(change_point_simulation.delays(0.1, 0.02, 20)) <= 4


def test_two_changes_are_found_where_they_are():
    """Each side of a split is looked at again."""
    dice = np.random.default_rng(1)
    values = np.concatenate([dice.normal(level, 0.1, 10) for level in (0, 2, -1)])

    assert change_points(values) == [10, 20]


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0], [1.0] * 20])
def test_nothing_is_found_where_nothing_can_be(values):
    """Too few values, or all the same."""
    assert change_points(values) == []


def test_files_of_a_pipeline_are_shown_with_the_runs_there_are(tmp_path, monkeypatch):
    """A run that is under runs/ as well counts once."""
    monkeypatch.setattr(catalogue, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(running, "digests", lambda: runs(*[1000] * 3))
    for number, found in enumerate(runs(*[1000] * 8, *[500] * 4)):
        (tmp_path / f"{number:02d}.json").write_bytes(encode(found))
    shown = CliRunner().invoke(cli.cli, ["history", "--saved", str(tmp_path), "--json"], prog_name="lab")
    series = {each["of"]: each for each in json.loads(shown.stdout)}

    assert len(series["throughput:none"]["points"]) == 12
    assert [change["run"] for change in series["throughput:none"]["changes"]] == ["run-8"]


def test_runs_with_another_reference_are_another_series():
    """Their servers were measured beside others."""
    found = history([*runs(1000, 1000), *runs(1000, against="mariadb-10.11")])

    assert sorted(len(series.points) for series in found if series.of == "throughput:none") == [1, 2]


def test_a_slower_server_shows_in_the_history():
    """The change names the first run at the new level and how much it is."""
    found = of(history(runs(*[1000] * 10, *[800] * 4)))

    assert [change.at for change in found.changes] == [10]
    assert found.changes[0].ratio == pytest.approx(0.8, abs=0.02)


def beside(loop_us, digest):
    """Return the run with this time of the loop in each round."""
    engine = digest.engines["mariadb"]
    cases = {name: replace(case, loop_us=[loop_us] * 3 if loop_us else []) for name, case in engine.cases.items()}
    return replace(digest, engines={"mariadb": replace(engine, cases=cases)})


@pytest.mark.parametrize(
    ("loop_us", "said"),
    [
        (480, "from this run on the CPUs were slower (a loop took 1.20 times as long)"),
        (320, None),
        (410, None),
        (None, None),
    ],
    ids=["slower", "faster", "hardly slower", "not known"],
)
def test_a_change_that_the_speed_of_the_cpus_may_explain_says_so(loop_us, said):
    """Not if the CPUs became faster and the server slower, if they hardly changed, or if a run has no loop."""
    found = of(
        history(beside(400 if n < 10 else loop_us, each) for n, each in enumerate(runs(*[1000] * 10, *[800] * 4)))
    )

    assert [change.at for change in found.changes] == [10]
    remarks = "\n".join(over_time._remarks(found))
    assert said in remarks if said else "loop" not in remarks


def test_a_change_too_small_to_matter_is_left_out():
    """One per cent is seen in quiet series and needs no line."""
    rates = [1000.0 + n % 2 for n in range(10)] + [985.0 + n % 2 for n in range(10)]
    found = [run(rate, 1e-6, seed=n, run=f"run-{n}", started=f"2026-11-{n + 1:02d}") for n, rate in enumerate(rates)]

    assert of(history(found)).changes == []


def test_a_short_series_shows_no_change_and_says_from_when_on():
    """Fewer runs than FEWEST_RUNS have too few permutations."""
    found = of(history(runs(*[1000] * 4, *[500] * 3)))

    assert found.changes == []
    assert over_time._changes(found) == f"needs {FEWEST_RUNS} runs"


@pytest.mark.parametrize(
    "other",
    [
        {"preset": "full"},
        {"conditions": {"rtt": "40ms"}},
        {"experiment": "semisync_wan"},
        {"question": "What else?"},
    ],
    ids=["preset", "conditions", "experiment", "question"],
)
def test_runs_that_cannot_be_compared_are_in_series_of_their_own(other):
    """Each difference that changes what a figure means splits a series."""
    found = history([*runs(1000), *runs(1000, **other)])

    assert [len(series.points) for series in found if series.of == "throughput:none"] == [1, 1]


def test_another_machine_is_another_series():
    """Its rates are other ones."""
    found = history([*runs(1000), on_another_machine(runs(1000)[0])])

    assert [len(series.points) for series in found if series.of == "throughput:none"] == [1, 1]


def test_another_version_of_the_server_stays_in_the_series_and_is_named():
    """The effect of an update is what a history should show."""
    first, second = runs(1000, 1000)
    newer = replace(second.engines["mariadb"], version="12.0")
    found = of(history([first, replace(second, engines={"mariadb": newer})]))

    assert len(found.points) == 2
    assert "run run-1: the server's version changed from 11.8 to 12.0" in "\n".join(over_time._remarks(found))


def test_the_oldest_run_comes_first():
    """Whatever the order in which they are read."""
    found = of(history(reversed(runs(1, 2, 3))))

    assert [point.run for point in found.points] == ["run-0", "run-1", "run-2"]


def test_a_sparkline_has_a_bar_for_each_value():
    """From the least to the most; all equal values are at the bottom."""
    assert over_time.sparkline([1, 2, 3]) == "▁▅█"
    assert over_time.sparkline([5, 5]) == "▁▁"


# --- the commands -----------------------------------------------------------------------------------------------------


def lab(*arguments):
    """Run a command as `lab` does; a LabError is raised."""
    ended = CliRunner().invoke(cli.cli, arguments, prog_name="lab")
    if isinstance(ended.exception, LabError):
        raise ended.exception
    return ended


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Return the name of the only recorded run."""
    monkeypatch.setattr(catalogue, "RUNS", tmp_path)
    return golden.unpack("semisync_wan", tmp_path).name


def test_the_history_of_all_figures_and_of_one(recorded):
    """Each claim with a ratio and each case has a line; one of them is shown run by run."""
    every, one = lab("history"), lab("history", "throughput:none")

    assert "throughput:none" in every.stdout
    assert recorded in one.stdout
    assert "1 runs; at least" in one.stdout
    assert json.loads(lab("history", "throughput:none", "--json").stdout)[0]["points"][0]["run"] == recorded


def test_a_claim_that_no_run_has_is_refused_with_the_nearest_name(recorded):
    """A typing error is not an empty table."""
    with pytest.raises(LabError, match="throughput:none"):
        lab("history", "throughput:non")


def test_an_experiment_without_runs_is_refused(recorded):
    """Without series a message is shown instead of an empty table."""
    with pytest.raises(LabError, match="no recorded run matches"):
        lab("history", "--experiment", "raid0_disks")
