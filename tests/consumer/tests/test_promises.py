"""What the shop relies on, as drills and claims: whole runs with a record and a report."""

import pytest

pytestmark = pytest.mark.long


def test_a_slow_line_loses_no_order(lab_drill):
    """A drill of the shop's own: lab/drills/async/slow-line.yaml."""
    result = lab_drill("slow-line", "async")

    assert result.lost == 0
    assert result.as_expected


def test_a_drill_in_any_file(lab_drill, tmp_path):
    """The file may be anywhere."""
    file = tmp_path / "nothing.yaml"
    file.write_text(
        "about: Nothing happens.\ntopology: single\nclients: {server: 1}\nbefore: 1\n"
        "expected: [{says: no row is lost, figure: lost, equals: 0}]\n"
    )

    assert lab_drill(file).as_expected


def test_the_distance_costs_no_orders(lab_judge):
    """An experiment of the shop's own: lab/experiments/branch_distance.py."""
    assert lab_judge("branch_distance").holds("orders-do-not-wait")


def test_the_distance_does_not_help(lab_judge):
    """It is the same run: nothing is measured twice."""
    assert lab_judge("branch_distance").refuted("distance-helps")


def test_the_cost_of_syncing_is_known(lab_judge):
    """A question of the shop's own: lab/experiments/sync_costs.yaml."""
    assert lab_judge("sync_costs").as_expected


def test_another_server_with_the_shop_s_settings(lab):
    """A lab for one test."""
    shop = lab("single", settings={"max_connections": 77}, init="tests/shop.sql")

    assert shop.writer.value("SELECT @@max_connections") == 77
    assert shop.writer.value("SELECT COUNT(*) FROM lab.items") == 2
