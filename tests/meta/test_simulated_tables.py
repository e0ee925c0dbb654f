"""The figures of docs/statistics.md and docs/comparing.md that simulations make are what the simulations print."""

from functools import partial

import pytest
from replication_lab.model.core.statistics import Plan
from replication_lab.world import catalogue

from tests.records import correlation
from tests.unit import change_point_simulation, comparison_simulation, simulation

PLANS = [Plan(3, 8), Plan(3, 12)]
QUICK = [*(partial(simulation.speeds, plan) for plan in PLANS), partial(simulation.slopes, PLANS[0])]
# Bootstraps resample each of a thousand runs a thousand times.
# A correlation of rounds with which a verdict at its boundary is wrong in 6 % of the runs.
WORTH_PAYING = 0.1
SLOW = [pytest.param(partial(simulation.candidates, plan), marks=pytest.mark.long) for plan in PLANS]


def page(name):
    return (catalogue.ROOT / "docs" / f"{name}.md").read_text()


@pytest.mark.parametrize("made", [*QUICK, *SLOW], ids=lambda made: f"{made.func.__name__}-{made.args[0].max_rounds}")
def test_a_table_of_the_page_is_what_the_simulation_prints(made):
    """Seeds are fixed, so each digit is."""
    assert made() in page("statistics")


def test_what_is_said_of_correlated_rounds_is_what_the_simulation_and_the_kept_records_give():
    """And a correlation that makes more verdicts wrong than stated would need wider intervals."""
    found = correlation.pooled(correlation.log_ratios())

    assert simulation.correlated() in page("statistics")
    assert str(found) in page("statistics")
    assert found.high < WORTH_PAYING


@pytest.mark.long
def test_what_is_said_of_two_sides_that_are_compared_is_what_the_simulation_prints():
    """The table, and the sentence about one run against one without anything added for the runs."""
    assert comparison_simulation.table() in page("statistics")
    assert comparison_simulation.of_rounds_alone() in page("statistics")


@pytest.mark.long
def test_what_is_said_of_change_points_is_what_the_simulation_prints():
    """The table, and the sentences about false alarms."""
    said = page("comparing")

    assert change_point_simulation.table() in said
    assert [each for each in change_point_simulation.sentences() if each not in " ".join(said.split())] == []
