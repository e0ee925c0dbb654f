"""Every claim of temporary_tables that the preset decides comes out as it is known to, on real servers."""

import pytest
from replication_lab import experiments, runs

from tests.claims.decidable import decidable

# The first test waits for the whole run.
pytestmark = pytest.mark.timeout(1800)

NAME = "temporary_tables"
# In `make test`: which table is faster, as published, on a server of that time and on the default one. `make claims`
# also judges how many times: that ratio is near its bound, and took seven rounds instead of three.
THEN = ("mysql-5.5", "mariadb")
BRIEFLY = ("sort_1-aria-faster-than-mysql-5.5", "sort_id-aria-faster-than-mysql-5.5")


def pytest_generate_tests(metafunc):
    """Make one test an engine and claim: the published ones briefly; with --lab-engine all for all."""
    every = metafunc.config.getoption("lab_engine") == "all"
    if every:
        engines, preset, claims = runs.available(experiments.load(NAME)), "quick", ()
    else:
        engines, preset, claims = THEN, "brief", BRIEFLY
    pairs = [
        (engine, claim)
        for engine in engines
        for claim in decidable(NAME, preset, engine)
        if not claims or claim in claims
    ]
    metafunc.parametrize(("engines", "preset", "claims"), [(",".join(engines), preset, claims)], ids=[preset])
    metafunc.parametrize(("engine", "claim"), pairs)


def test_claim_comes_out_as_expected(comes_out, judged, engines, preset, claims, engine, claim):
    """A verdict that changed fails; `comes_out` says what becomes of one that could not be reached."""
    summary = judged(NAME, engines, preset, claims)
    row = next(row for row in summary.claims if (row.id, row.engine) == (claim, engine))

    comes_out(row)
