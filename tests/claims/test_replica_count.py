"""Every claim of replica_count that a run decides comes out as it is known to, on real servers."""

import pytest

from tests.claims.decidable import decidable

NAME = "replica_count"
# 21 servers: with --lab-engine all.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.long]


@pytest.mark.parametrize("claim", decidable(NAME, "least", "mariadb"))
def test_claim_comes_out_as_expected(comes_out, judged, claim):
    """A verdict that changed fails; `comes_out` says what becomes of one that could not be reached."""
    row = next(row for row in judged(NAME, "mariadb", "least").claims if row.id == claim)

    comes_out(row)
