"""Every drill for failover managers under every manager: the fault acted, and what the manager did is known."""

from dataclasses import dataclass, field

import pytest

from tests.lab.under_manager import drilled

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Managed:
    """A manager with the engine that it manages, the endpoint of its clients, and its settings."""

    engine: str
    endpoint: str
    settings: dict[str, int] = field(default_factory=dict)


MANAGERS = {
    "keepalived": Managed("mariadb", "address"),
    "pacemaker": Managed("mariadb", "address"),
    "mha": Managed("mysql-8.0", "haproxy"),
    "none": Managed("mariadb", "haproxy", {"after": 10}),
}
# By name, and the seconds of its fault where it is run for several.
DRILLS = [
    ("lose-source", None),
    ("manager-host-killed", None),
    ("manager-freeze", 3),
    ("manager-freeze", 10),
    ("manager-freeze", 30),
    ("manager-cut-off", None),
    ("manager-clients-cut", None),
    ("manager-site-cut", None),
    ("manager-applier-stopped", None),
    ("refuse-broken-replica", None),
    ("manager-delayed-replica", None),
    ("manager-full-disk", None),
    ("manager-killed", None),
    ("two-failovers", None),
    ("flapping-link", None),
]
# Whose fault is one of the proxy.
AT_A_PROXY = {"manager-clients-cut"}
# Whose fault is one of the manager's program, or of the host on which that is: a person has none.
OF_A_PROGRAM = {"manager-host-killed", "manager-cut-off", "manager-site-cut", "manager-killed"}
ALL = [
    (manager, name, seconds)
    for manager in MANAGERS
    for name, seconds in DRILLS
    if manager != "none" or name not in OF_A_PROGRAM
]


@pytest.mark.parametrize(("manager", "name", "seconds"), ALL)
def test_each_drill_under_each_manager_is_proved(docker, tmp_path, manager, name, seconds):
    """Whatever its verdict is: nothing is in doubt, and every node is healthy again."""
    how = MANAGERS[manager]
    endpoint = "haproxy" if name in AT_A_PROXY else how.endpoint
    result = drilled(manager, name, tmp_path, how.engine, endpoint=endpoint, seconds=seconds, **how.settings)

    assert result.doubts == [] and result.evidence.unrecovered == ""
