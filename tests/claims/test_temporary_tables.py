"""Every claim of temporary_tables that the preset decides comes out as it is known to, on real servers."""

import pytest

from harness import experiments, running
from harness.claim import Verdict
from harness.world import catalogue

# The first test waits for the whole run.
pytestmark = pytest.mark.timeout(1800)

NAME = "temporary_tables"


def pytest_generate_tests(metafunc):
    """One test an engine and claim: of the engines that are usually compared, briefly; with --engine all of all."""
    known = experiments.load(NAME)
    every = metafunc.config.getoption("--engine") == "all"
    engines, preset = (running.available(known), "quick") if every else (known.usual, "brief")
    chosen = known.preset(preset)
    pairs = [
        (engine, claim.id) for engine in engines for claim in known.judged_by(chosen) if can_have(known, engine, claim)
    ]
    metafunc.parametrize(("engines", "preset"), [(",".join(engines), preset)], ids=[preset])
    metafunc.parametrize(("engine", "claim"), pairs)


def can_have(known, engine, claim):
    """Whether an engine has the features of all cases that a claim measures on it."""
    if engine in claim.relation.references:
        return False
    needs = {case.name: case.needs for case in known.cases}
    own = [case for server, case in claim.relation.measured_on(engine) if server == engine]
    return all(needs[case] <= catalogue.engines()[engine].features for case in own)


def test_claim_comes_out_as_expected(judged, engines, preset, engine, claim):
    """A verdict that changed, or that could not be reached, fails."""
    summary = judged(NAME, engines, preset)
    row = next(row for row in summary.claims if (row.id, row.engine) == (claim, engine))

    assert row.verdict is not Verdict.UNKNOWN, row.reason
    assert not row.changed, f"{row.sentence}: {row.verdict}, expected {row.expected}: {row.reason}"
