"""Every claim of the experiments on disks over their brief presets comes out as it is known to, on emulated disks."""

import pytest

from harness import experiments
from harness.claim import Verdict

# The first test of an experiment waits for the whole run.
pytestmark = pytest.mark.timeout(900)

PRESET, ENGINE = "brief", "mariadb"


def claims_of(name):
    """The claims of which the preset measures all cases."""
    known = experiments.load(name)
    measured = {case.name for case in known.chosen(known.preset(PRESET))}
    return [(name, claim.id) for claim in known.claims if set(claim.relation.cases) <= measured]


@pytest.mark.parametrize(("name", "claim"), [*claims_of("raid0_disks"), *claims_of("raid_replica")])
def test_claim_comes_out_as_expected(judged, name, claim):
    """A verdict that changed, or that could not be reached, fails."""
    row = next(row for row in judged(name, ENGINE, PRESET).claims if row.id == claim)

    assert row.verdict is not Verdict.UNKNOWN, row.reason
    assert not row.changed, f"{row.sentence}: {row.verdict}, expected {row.expected}: {row.reason}"
