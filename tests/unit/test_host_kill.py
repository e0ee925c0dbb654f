"""Does the loss of a host take all that runs on it, and does the host come back before its server?"""

from types import SimpleNamespace

import pytest
from replication_lab.faults.kill import HostKill
from replication_lab.model.core.errors import LabError
from replication_lab.world import clock


class Part:
    """A container, and the service that it is of; `at` is the network that it uses."""

    def __init__(self, name, at, acts):
        self.name, self.id, self._acts, self._ended = name, f"id-{name}", acts, False
        self.attrs = {"HostConfig": {"NetworkMode": at}, "State": {"Health": {"Status": "healthy"}}}
        self.container = self
        self.network = lambda: self

    def kill(self, _signal):
        self._acts.append(f"kill {self.name}")
        self._ended = self.name != "deaf"

    def start_again(self):
        self._acts.append(f"start {self.name}")
        self._ended = False

    def state(self):
        return ("exited", 137) if self._ended else ("running", 0)

    def is_healthy(self):
        return True


@pytest.fixture
def acts():
    return []


def lab_of(acts, **networks):
    parts = {name: Part(name, at, acts) for name, at in networks.items()}
    for part in parts.values():
        owner = part.attrs["HostConfig"]["NetworkMode"].partition(":id-")[2]
        part.network = lambda owner=owner, part=part: parts.get(owner, part)
    return SimpleNamespace(name="a-lab", containers=parts, service=parts.__getitem__, node=parts.__getitem__)


def test_everything_on_the_host_ends_and_the_host_comes_back_first(acts):
    """Packet rules of the host have to be there before the server dials."""
    lab = lab_of(acts, host="bridge", source="container:id-host", agent="container:id-host", replica="bridge")
    fault = HostKill(lab, ["source"])
    fault.inject()

    assert sorted(acts) == ["kill agent", "kill host", "kill source"]
    assert all(proof.ok for proof in fault.verify())
    fault.recover()
    assert acts[3:] == ["start host", "start agent", "start source"]


def test_a_part_of_the_host_that_lives_on_is_noticed(acts, monkeypatch):
    """For example the ssh server, by which a manager would still save what the server wrote."""
    monkeypatch.setattr(clock, "wait_until", lambda *_args, **_kwargs: None)
    fault = HostKill(lab_of(acts, host="bridge", source="container:id-host", deaf="container:id-host"), ["source"])
    fault.inject()

    assert [proof.found for proof in fault.verify() if not proof.ok] == [
        "host exited with status 137, deaf running with status 0, source exited with status 137"
    ]


def test_a_server_without_a_host_of_its_own_is_refused(acts):
    """Its own container is all that there is of it, and `kill` ends that."""
    with pytest.raises(LabError, match="no hosts around its servers"):
        HostKill(lab_of(acts, source="bridge", replica="bridge"), ["source"])
