"""Every claim of temporary_tables that the preset decides comes out as it is known to, on real servers."""

import pytest
from replication_lab import experiments, runs
from replication_lab.model.verdict import Verdict

from tests.claims.decidable import decidable

# The first test waits for the whole run.
pytestmark = pytest.mark.timeout(1800)

NAME = "temporary_tables"


def pytest_generate_tests(metafunc):
    """Make one test an engine and claim: briefly for the default engines; with --lab-engine all for all."""
    known = experiments.load(NAME)
    every = metafunc.config.getoption("lab_engine") == "all"
    engines, preset = (runs.available(known), "quick") if every else (known.default_engines, "brief")
    pairs = [(engine, claim) for engine in engines for claim in decidable(NAME, preset, engine)]
    metafunc.parametrize(("engines", "preset"), [(",".join(engines), preset)], ids=[preset])
    metafunc.parametrize(("engine", "claim"), pairs)


def test_claim_comes_out_as_expected(judged, engines, preset, engine, claim):
    """A verdict that changed, or that could not be reached, fails."""
    summary = judged(NAME, engines, preset)
    row = next(row for row in summary.claims if (row.id, row.engine) == (claim, engine))

    assert row.verdict is not Verdict.UNKNOWN, row.reason
    assert not row.changed, f"{row.sentence}: {row.verdict}, expected {row.expected}: {row.reason}"
