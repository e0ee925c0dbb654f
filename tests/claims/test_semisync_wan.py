"""Every claim of semisync_wan comes out as it is known to, on real servers."""

import pytest
from replication_lab import experiments

from tests.conftest import engines_of

NAME = "semisync_wan"
# In `make test`: the published figures, the link that they were measured on, a replica that reads past a link without
# a condition, and the same of the other wait point.
BRIEFLY = (
    *("async-costs-little", "async-does-not-wait", "after-commit-lan-costs-less-than-half", "link-is-85ms"),
    *(
        f"{wait}-{claim}"
        for wait in ("after-sync", "after-commit")
        for claim in ("commit-is-one-round-trip", "one-client-per-round-trip")
    ),
)


def pytest_generate_tests(metafunc):
    """Make one test an engine and claim."""
    if metafunc.config.getoption("lab_engine") == "all":
        preset, only = "quick", ()
        claims = [claim.id for claim in experiments.load(NAME).claims]
    else:
        preset, only, claims = "least", BRIEFLY, BRIEFLY
    rows = [(engine, preset, only, claim) for engine in engines_of(metafunc.config, NAME) for claim in claims]
    ids = [f"{engine}-{preset}-{claim}" for engine, *_, claim in rows]
    metafunc.parametrize(("engine", "preset", "only", "claim"), rows, ids=ids)


def test_claim_comes_out_as_expected(comes_out, judged, engine, preset, only, claim):
    """A verdict that changed fails; `comes_out` says what becomes of one that could not be reached."""
    summary = judged(NAME, engine, preset, only)
    for left_out in summary.not_judged:
        if (left_out.claim, left_out.engine) == (claim, engine):
            pytest.skip(left_out.reason)
    row = next(row for row in summary.claims if (row.id, row.engine) == (claim, engine))

    comes_out(row)
