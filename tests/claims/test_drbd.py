"""Every claim that the presets of the experiments on a replicated disk decide comes out as known, in `make claims`."""

import pytest

from tests.claims.decidable import decidable

# The first test of an experiment waits for the whole run.
pytestmark = [pytest.mark.timeout(3600), pytest.mark.long]

ENGINE = "mariadb"
QUICK = ("drbd_cost", "drbd_bulk", "drbd_protocols")


@pytest.mark.parametrize(
    ("name", "claim"), [(name, claim) for name in QUICK for claim in decidable(name, "quick", ENGINE)]
)
def test_claim_comes_out_as_expected(comes_out, judged, name, claim):
    """A verdict that changed fails; `comes_out` says what becomes of one that could not be reached."""
    row = next(row for row in judged(name, ENGINE, "quick", ()).claims if row.id == claim)

    comes_out(row)
