"""Every claim of semisync_wan comes out as it is known to, on real servers; UNKNOWN is never good enough."""

import pytest
from replication_lab import experiments
from replication_lab.model.verdict import Verdict

from tests.claims.decidable import decidable
from tests.conftest import engines_of

NAME = "semisync_wan"


def pytest_generate_tests(metafunc):
    """Make one test an engine and claim."""
    if metafunc.config.getoption("lab_engine") == "all":
        preset, claims = "quick", [claim.id for claim in experiments.load(NAME).claims]
    else:
        preset, claims = "least", decidable(NAME, "least", "mariadb")
    rows = [(engine, preset, claim) for engine in engines_of(metafunc.config, NAME) for claim in claims]
    metafunc.parametrize(("engine", "preset", "claim"), rows)


def test_claim_comes_out_as_expected(judged, engine, preset, claim):
    """A verdict that changed, or that could not be reached, fails."""
    summary = judged(NAME, engine, preset)
    for left_out in summary.not_judged:
        if (left_out.claim, left_out.engine) == (claim, engine):
            pytest.skip(left_out.reason)
    row = next(row for row in summary.claims if (row.id, row.engine) == (claim, engine))

    assert row.verdict is not Verdict.UNKNOWN, row.reason
    assert not row.changed, f"{row.sentence}: {row.verdict}, expected {row.expected}: {row.reason}"
