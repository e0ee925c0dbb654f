"""Every claim of the experiments that repeat newer publications comes out as it is known to, on real servers."""

import pytest
from replication_lab import experiments, runs

from tests.claims.decidable import decidable

# The first test of an experiment waits for its whole run.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.long]

NAMES = (
    *("blocked_commit", "galera_far_node", "galera_two_sites", "group_far_member", "parallel_appliers"),
    *("semisync_durability", "semisync_points", "semisync_threads", "server_versions"),
)


def pytest_generate_tests(metafunc):
    """Make one test an experiment, engine and claim; with --lab-engine all, of all engines that are available."""
    every = metafunc.config.getoption("lab_engine") == "all"
    found = []
    for name in NAMES:
        known = experiments.load(name)
        engines = runs.available(known) if every else known.default_engines
        asked = ",".join(engines)
        found += [(name, asked, engine, claim) for engine in engines for claim in decidable(name, "quick", engine)]
    metafunc.parametrize(("name", "engines", "engine", "claim"), found)


def test_claim_comes_out_as_expected(comes_out, judged, name, engines, engine, claim):
    """A verdict that changed fails; `comes_out` says what becomes of one that could not be reached."""
    summary = judged(name, engines)
    row = next(row for row in summary.claims if (row.id, row.engine) == (claim, engine))

    comes_out(row)
