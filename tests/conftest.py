"""The project's own pytest plugin, which tests are left to `make test-all`, and which run beside others."""

from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ["replication_lab.pytest_plugin", "tests.chromium"]
CLAIMS = Path(__file__).parent / "claims"
# These files share one cluster, the fixture `cluster` of tests/lab/conftest.py.
OF_ONE_CLUSTER = {f"tests/lab/test_galera_{name}.py" for name in ("drills", "network", "sabotage", "start")}
# Files that take longest: their processes would go on alone at the end if they began last. The first one begins the
# tests of the cluster, which are one process's.
LONGEST = (
    "galera_drills",
    "drills",
    "ha",
    "up_and_down",
    "failover",
    "drbd",
    "toxics",
    "everyday_commands",
    "asking",
    "asking_command",
    "recipes",
    "group",
    "start_options",
    "asking_load",
)


def pytest_collection_modifyitems(config, items):
    """Leave out what is marked long, before any lab is started for it, unless everything is asked for.

    Files that take longest come first where tests run beside each other.
    """
    if config.getoption("dist") == "loadscope":
        items.sort(key=lambda item: _place(item.path.stem.removeprefix("test_")))
    for item in items:
        if CLAIMS in item.path.parents:
            item.add_marker("alone")
    if config.getoption("--lab-engine") == "all":
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _place(name):
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


def pytest_xdist_make_scheduler(config, log):
    """Let each file of tests on servers run in one process, so that no lab of a fixture is started twice."""
    if config.getoption("dist") == "loadscope":
        return OneProcessForALab(config, log)
    return None


class OneProcessForALab(LoadScopeScheduling):
    """Distributes files, and those of one cluster together."""

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0]
        return "cluster" if file in OF_ONE_CLUSTER else file
