"""How a claim's verdict ends its test: a changed verdict fails, and one that the machine could not decide is counted.

`make test` runs on any machine, so a claim that could not be decided there is skipped, with the reason. If fewer than
half are decided, the command fails. `make claims` is strict: there UNKNOWN fails. On a machine that is busy before the
first claim all are skipped, and none counts (`judged` in tests/conftest.py).
"""

import pytest
from replication_lab.model.core.verdict import Verdict

# The reasons of the claims that were not decided, and the number of those that were.
UNDECIDED, DECIDED = pytest.StashKey[list[str]](), pytest.StashKey[int]()
FEWEST = 0.5


def pytest_configure(config):
    config.stash[UNDECIDED], config.stash[DECIDED] = [], 0


@pytest.fixture
def comes_out(request):
    """Return the check of a claim's row: it came out as it is known to."""
    config = request.config

    def check(row):
        if row.verdict is Verdict.UNKNOWN:
            if config.getoption("lab_engine") == "all":
                pytest.fail(f"not decided: {row.reason}")
            config.stash[UNDECIDED].append(f"{request.node.nodeid}: {row.reason}")
            pytest.skip(f"not decided on this machine: {row.reason}")
        config.stash[DECIDED] += 1
        assert not row.changed, f"{row.sentence}: {row.verdict}, expected {row.expected}: {row.reason}"

    return check


def too_few(decided, undecided):
    """Return whether fewer than half of the claims were decided."""
    return decided < FEWEST * (decided + undecided)


def pytest_sessionfinish(session):
    if too_few(session.config.stash[DECIDED], len(session.config.stash[UNDECIDED])):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    decided, undecided = config.stash[DECIDED], config.stash[UNDECIDED]
    if decided or undecided:
        terminalreporter.section("claims")
        terminalreporter.line(f"{decided} of {decided + len(undecided)} claims were decided on this machine")
        for each in undecided:
            terminalreporter.line(f"not decided: {each}")
    if too_few(decided, len(undecided)):
        terminalreporter.line("FAILED: fewer than half of the claims were decided; run it again on a quiet machine")
