"""Every claim of group_commit comes out as it is known to, on real servers."""

import pytest
from replication_lab import experiments, runs

from tests.claims.decidable import decidable

# The first test waits for the whole run.
pytestmark = pytest.mark.timeout(1800)

NAME = "group_commit"


def pytest_generate_tests(metafunc):
    """Make one test an engine and claim, with --lab-engine all."""
    engines = runs.available(experiments.load(NAME))
    pairs = [(engine, claim) for engine in engines for claim in decidable(NAME, "quick", engine)]
    metafunc.parametrize("engines", [",".join(engines)], ids=["quick"])
    metafunc.parametrize(("engine", "claim"), pairs)


@pytest.mark.long
def test_claim_comes_out_as_expected(comes_out, judged, engines, engine, claim):
    """A verdict that changed fails; `comes_out` says what becomes of one that could not be reached."""
    summary = judged(NAME, engines)
    row = next(row for row in summary.claims if (row.id, row.engine) == (claim, engine))

    comes_out(row)
