"""Every claim of galera_vs_semisync over its preset's cases comes out as it is known to, on real servers."""

import pytest
from replication_lab.model.verdict import Verdict
from replication_lab.world import catalogue

from tests.claims.decidable import decidable
from tests.conftest import engines_of

# The first test of an engine waits for the whole run.
pytestmark = pytest.mark.timeout(900)

NAME = "galera_vs_semisync"


def pytest_generate_tests(metafunc):
    """Make one test an engine and claim, for the requested engines that have Galera."""
    preset = "brief" if metafunc.config.getoption("lab_engine") == "all" else "least"
    engines = [name for name in engines_of(metafunc.config, NAME) if "galera" in catalogue.engines()[name].features]
    rows = [(engine, preset, claim) for engine in engines for claim in decidable(NAME, preset, engine)]
    metafunc.parametrize(("engine", "preset", "claim"), rows)


def test_claim_comes_out_as_expected(judged, engine, preset, claim):
    """A verdict that changed, or that could not be reached, fails."""
    summary = judged(NAME, engine, preset)
    row = next(row for row in summary.claims if (row.id, row.engine) == (claim, engine))

    assert row.verdict is not Verdict.UNKNOWN, row.reason
    assert not row.changed, f"{row.sentence}: {row.verdict}, expected {row.expected}: {row.reason}"
