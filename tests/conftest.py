"""The project's own pytest plugin, which tests are left to `make test-all`, and which run beside others."""

from pathlib import Path

import pytest

pytest_plugins = ["replication_lab.pytest_plugin"]
CLAIMS = Path(__file__).parent / "claims"


# Before pytest-xdist's own hook, which reads the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave out what is marked long unless everything is asked for; keep tests that share a lab in one process."""
    for item in items:
        if CLAIMS in item.path.parents:
            item.add_marker("alone")
        item.add_marker(pytest.mark.xdist_group("cluster" if "cluster" in item.fixturenames else item.path.stem))
    if config.getoption("--engine") == "all":
        return
    # Deselected before any lab is started for it.
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
