"""Every claim of the experiments on a replicated disk over their brief presets comes out as it is known to."""

import pytest

from harness import experiments
from harness.claim import Verdict

# The first test of an experiment waits for the whole run.
pytestmark = pytest.mark.timeout(900)

PRESET, ENGINE = "brief", "mariadb"
NAMES = ("drbd_cost", "drbd_bulk", "drbd_protocols")
NOT_HERE = pytest.mark.skip(reason="not all of its verdicts are known yet; `make claims` runs it")


def pytest_generate_tests(metafunc):
    """One test a claim where all engines are asked for, as `make claims` does; else one skip an experiment."""
    if metafunc.config.getoption("--engine") == "all":
        metafunc.parametrize(("name", "claim"), [(name, claim) for name in NAMES for claim in claims_of(name)])
    else:
        metafunc.parametrize(("name", "claim"), [pytest.param(name, "", marks=NOT_HERE) for name in NAMES])


def claims_of(name):
    """The claims of which the preset measures all cases."""
    known = experiments.load(name)
    measured = {case.name for case in known.chosen(known.preset(PRESET))}
    return [claim.id for claim in known.claims if set(claim.relation.cases) <= measured]


def test_claim_comes_out_as_expected(judged, name, claim):
    """A verdict that changed, or that could not be reached, fails."""
    row = next(row for row in judged(name, ENGINE, PRESET).claims if row.id == claim)

    assert row.verdict is not Verdict.UNKNOWN, row.reason
    assert not row.changed, f"{row.sentence}: {row.verdict}, expected {row.expected}: {row.reason}"
