"""Every claim of isolation comes out as it is known to, on real servers."""

import pytest
from replication_lab import experiments, runs

from tests.claims.decidable import decidable

# The first test waits for the whole run.
pytestmark = pytest.mark.timeout(1800)

NAME = "isolation"
# In `make test`: the anomaly of the report of 2026, without and with the setting that prevents it.
BRIEFLY = ("no-lost_updates-galera-lan", "no-lost_updates-galera-before-lan", "no-stale_reads-galera-sync-wait-at-lan")


def pytest_generate_tests(metafunc):
    """Make one test an engine and claim: three of MariaDB briefly; with --lab-engine all for all."""
    if metafunc.config.getoption("lab_engine") == "all":
        engines, preset, claims = runs.available(experiments.load(NAME)), "quick", ()
    else:
        engines, preset, claims = ("mariadb",), "brief", BRIEFLY
    known = {engine: decidable(NAME, preset, engine) for engine in engines}
    pairs = [(engine, claim) for engine in engines for claim in claims or known[engine]]
    metafunc.parametrize(("engines", "preset", "claims"), [(",".join(engines), preset, claims)], ids=[preset])
    metafunc.parametrize(("engine", "claim"), pairs)


def test_claim_comes_out_as_expected(comes_out, judged, engines, preset, claims, engine, claim):
    """A verdict that changed fails; `comes_out` says what becomes of one that could not be reached."""
    summary = judged(NAME, engines, preset, claims)
    row = next(row for row in summary.claims if (row.id, row.engine) == (claim, engine))

    comes_out(row)
