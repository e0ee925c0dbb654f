"""Does the CPU time of a container count across its end, and only once?"""

import pytest
from replication_lab.world.docker.containers import LabContainers
from replication_lab.world.docker.service import Service


@pytest.fixture
def server(monkeypatch):
    """Return a service whose container has used 3 s so far."""
    monkeypatch.setattr(Service, "usage", lambda _: {"cpu_stats": {"cpu_usage": {"total_usage": 3_000_000_000}}})
    return Service(LabContainers("lab-a"), "server")


def test_what_each_run_used_is_added(server):
    """Docker counts each of them from zero."""
    for _ in range(2):
        with server.ending():
            pass

    assert server.containers.cpu_of_ended == {"server": 6.0}


def test_a_container_that_was_not_ended_counts_once(server):
    """Sabotage: the engine refuses. Counted twice, its time would hide that of another program."""
    with pytest.raises(OSError, match="refused"), server.ending():
        raise OSError("refused")

    assert server.containers.cpu_of_ended == {}
