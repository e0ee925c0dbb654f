"""What tests of the repository share with the unit tests: no Docker, no network, no waiting, and their fake world."""

from pathlib import Path

from tests.unit.conftest import (  # noqa: F401
    _undisturbed_runs,
    brief,
    engine,
    fake_world,
    interruptible,
    lab,
    latency,
    no_world,
    nothing_left_behind,
    nothing_remembered,
    ran,
    refused,
    runs,
    undisturbed,
    undrawn,
)

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Mark every test here as one that `make test-unit` leaves out: most read all files of a kind."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker("whole")
