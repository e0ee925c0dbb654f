"""Every claim that the presets of the experiments on a replicated disk decide comes out as it is known to."""

import pytest

from tests.claims.decidable import decidable

# The first test of an experiment waits for the whole run.
pytestmark = pytest.mark.timeout(3600)

ENGINE = "mariadb"
QUICK = ("drbd_cost", "drbd_bulk", "drbd_protocols")
# In `make test` a run ends once the published cost is decided; those of the tuned settings need more rounds.
BRIEFLY = ("untuned-costs",)


def pytest_generate_tests(metafunc):
    """Make quick runs of all if all engines are requested, as `make claims` does; else a brief one of drbd_cost."""
    everything = metafunc.config.getoption("lab_engine") == "all"
    asked = [(name, "quick", ()) for name in QUICK] if everything else [("drbd_cost", "brief", BRIEFLY)]
    rows = [
        (name, preset, claims, claim)
        for name, preset, claims in asked
        for claim in decidable(name, preset, ENGINE)
        if not claims or claim in claims
    ]
    ids = [f"{name}-{preset}-{claim}" for name, preset, _, claim in rows]
    metafunc.parametrize(("name", "preset", "claims", "claim"), rows, ids=ids)


def test_claim_comes_out_as_expected(comes_out, judged, monkeypatch, name, preset, claims, claim):
    """A verdict that changed fails; `comes_out` says what becomes of one that could not be reached."""
    if preset == "brief":
        # All blocks are compared at the end, 35 MB a second.
        monkeypatch.setenv("LAB_DISK_SIZE", "256M")
    row = next(row for row in judged(name, ENGINE, preset, claims).claims if row.id == claim)

    comes_out(row)
