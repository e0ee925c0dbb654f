"""Every claim of galera_vs_semisync over its preset's cases comes out as it is known to, on real servers."""

import pytest
from replication_lab.world import catalogue

from tests.claims.decidable import decidable
from tests.conftest import engines_of

# The first test of an engine waits for the whole run.
pytestmark = pytest.mark.timeout(900)

NAME = "galera_vs_semisync"
# In `make test`: what the published chart compares across a WAN, and what a commit waits for. The pairs on a LAN vary
# most, so that they take more rounds: `make claims` judges them.
BRIEFLY = (
    *(f"faster-than-{wait}-85ms-1" for wait in ("after-sync", "after-commit")),
    *("galera-commit-waits", "galera-commit-is-one-round-trip", "after-sync-commit-is-one-round-trip"),
)


def pytest_generate_tests(metafunc):
    """Make one test an engine and claim, for the requested engines that have Galera."""
    everything = metafunc.config.getoption("lab_engine") == "all"
    preset, claims = ("brief", ()) if everything else ("least", BRIEFLY)
    engines = [name for name in engines_of(metafunc.config, NAME) if "galera" in catalogue.engines()[name].features]
    rows = [
        (engine, preset, claims, claim) for engine in engines for claim in claims or decidable(NAME, preset, engine)
    ]
    ids = [f"{engine}-{preset}-{claim}" for engine, *_, claim in rows]
    metafunc.parametrize(("engine", "preset", "claims", "claim"), rows, ids=ids)


def test_claim_comes_out_as_expected(comes_out, judged, engine, preset, claims, claim):
    """A verdict that changed fails; `comes_out` says what becomes of one that could not be reached."""
    summary = judged(NAME, engine, preset, claims)
    row = next(row for row in summary.claims if (row.id, row.engine) == (claim, engine))

    comes_out(row)
