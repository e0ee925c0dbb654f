"""The project's own pytest plugin, and which tests are left to `make test-all`."""

pytest_plugins = ["replication_lab.pytest_plugin"]


def pytest_collection_modifyitems(config, items):
    """Leave out what is marked long, before any lab is started for it, unless everything is asked for."""
    if config.getoption("--engine") == "all":
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
