"""Every claim that the presets of the experiments on disks decide comes out as it is known to."""

import pytest

from harness.claim import Verdict
from tests.claims.decidable import decidable

# The first test of an experiment waits for the whole run.
pytestmark = pytest.mark.timeout(2400)

ENGINE = "mariadb"


def pytest_generate_tests(metafunc):
    """Quick runs of all where all engines are asked for, as `make claims` does; else brief ones."""
    asked = [("raid0_disks", "brief"), ("raid_replica", "brief")]
    if metafunc.config.getoption("--engine") == "all":
        asked = [(name, "quick") for name in ("raid0_disks", "raid_replica", "raid_appliers")]
    rows = [(name, preset, claim) for name, preset in asked for claim in decidable(name, preset, ENGINE)]
    metafunc.parametrize(("name", "preset", "claim"), rows)


def test_claim_comes_out_as_expected(judged, name, preset, claim):
    """A verdict that changed, or that could not be reached, fails."""
    row = next(row for row in judged(name, ENGINE, preset).claims if row.id == claim)

    assert row.verdict is not Verdict.UNKNOWN, row.reason
    assert not row.changed, f"{row.sentence}: {row.verdict}, expected {row.expected}: {row.reason}"
