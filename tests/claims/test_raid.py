"""Every claim that the presets of the experiments on disks decide comes out as it is known to."""

import pytest

from harness import experiments
from harness.claim import Verdict
from harness.world import catalogue

# The first test of an experiment waits for the whole run.
pytestmark = pytest.mark.timeout(2400)

ENGINE = "mariadb"


def claims_of(name, preset):
    """What a run of the preset decides on this engine."""
    known = experiments.load(name)
    features = catalogue.engines()[ENGINE].features
    possible = {case.name for case in known.cases if case.needs <= features}
    judged = known.judged_by(known.preset(preset))
    return [(name, preset, claim.id) for claim in judged if set(claim.relation.cases) <= possible]


def pytest_generate_tests(metafunc):
    """Quick runs of all where all engines are asked for, as `make claims` does; else brief ones."""
    asked = [("raid0_disks", "brief"), ("raid_replica", "brief")]
    if metafunc.config.getoption("--engine") == "all":
        asked = [(name, "quick") for name in ("raid0_disks", "raid_replica", "raid_appliers")]
    rows = [row for name, preset in asked for row in claims_of(name, preset)]
    metafunc.parametrize(("name", "preset", "claim"), rows)


def test_claim_comes_out_as_expected(judged, name, preset, claim):
    """A verdict that changed, or that could not be reached, fails."""
    row = next(row for row in judged(name, ENGINE, preset).claims if row.id == claim)

    assert row.verdict is not Verdict.UNKNOWN, row.reason
    assert not row.changed, f"{row.sentence}: {row.verdict}, expected {row.expected}: {row.reason}"
