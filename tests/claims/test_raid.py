"""Every claim of the experiments on disks over their smallest presets comes out as it is known to."""

import pytest

from harness import experiments
from harness.claim import Verdict
from harness.world import catalogue

# The first test of an experiment waits for the whole run.
pytestmark = pytest.mark.timeout(2400)

ENGINE = "mariadb"


def claims_of(name, preset):
    """The claims of which the preset measures all cases on this engine."""
    known = experiments.load(name)
    features = catalogue.engines()[ENGINE].features
    measured = {case.name for case in known.chosen(known.preset(preset)) if case.needs <= features}
    return [(name, preset, claim.id) for claim in known.claims if set(claim.relation.cases) <= measured]


def pytest_generate_tests(metafunc):
    """Parallel appliers take long: where all engines are asked for, as `make claims` does."""
    asked = [("raid0_disks", "brief"), ("raid_replica", "quick")]
    if metafunc.config.getoption("--engine") == "all":
        asked.append(("raid_appliers", "quick"))
    rows = [row for name, preset in asked for row in claims_of(name, preset)]
    metafunc.parametrize(("name", "preset", "claim"), rows)


def test_claim_comes_out_as_expected(judged, name, preset, claim):
    """A verdict that changed, or that could not be reached, fails."""
    row = next(row for row in judged(name, ENGINE, preset).claims if row.id == claim)

    assert row.verdict is not Verdict.UNKNOWN, row.reason
    assert not row.changed, f"{row.sentence}: {row.verdict}, expected {row.expected}: {row.reason}"
