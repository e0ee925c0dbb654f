"""A group in which every member is a primary, for the time of a fault."""

import pytest
from replication_lab.faults.writers import MultiPrimary
from replication_lab.model.core.errors import LabError
from replication_lab.witnesses import servers
from replication_lab.world import clock

from tests.fakes.machine import doubts
from tests.fakes.parts import LabOfServers


class Lab(LabOfServers):
    engine, is_attached = "mariadb", False


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    def wait_until(condition, what, seconds, every=0.05, hint=""):
        if not condition():
            raise LabError(f"timed out waiting for {what}", "it")

    monkeypatch.setattr(clock, "wait_until", wait_until)
    monkeypatch.setattr(servers, "_held", {})


class MemberServer:
    """A member of a group; `group` has the primaries, which a switch of the mode changes for all."""

    def __init__(self, name, group, ignores=()):
        self.name, self.group, self.ignores = name, group, ignores

    def rows(self, statement):
        if "AS me" in statement:
            return [{"me": f"uuid-{self.name}", "name": "group", "view_id": "7", "certify": "0", "apply": "0"}]
        return [
            {
                "member_id": f"uuid-{name}",
                "member_host": name,
                "member_state": "ONLINE",
                "member_role": "PRIMARY" if name in self.group["primaries"] else "SECONDARY",
            }
            for name in self.group["names"]
        ]

    def value(self, _statement):
        return f"uuid-{self.name}"

    def execute(self, statement):
        if any(words in statement for words in self.ignores):
            return
        only = statement.partition("uuid-")[2].rstrip("')")
        self.group["primaries"] = [only] if only else list(self.group["names"])


def a_group(ignores=()):
    names = ["node1", "node2", "node3"]
    state = {"names": names, "primaries": ["node1"]}
    return Lab("group", lambda name: MemberServer(name, state, ignores)), state


def test_every_member_is_a_primary_and_one_afterwards():
    """The one that the step names."""
    lab, state = a_group()
    fault = MultiPrimary(lab, ["node2"])
    fault.inject()
    assert doubts(fault.verify()) == []
    assert len(fault.verify()) == 3
    fault.recover()

    assert doubts(fault.verify_recovered()) == []
    assert state["primaries"] == ["node2"]


def test_a_mode_that_does_not_change_is_noticed(refused):
    """Neither on the way there nor on the way back."""
    lab, _ = a_group(ignores=("multi_primary",))
    assert "to be a primary" in refused(MultiPrimary(lab, ["node1"]).inject).found

    lab, _ = a_group(ignores=("single_primary",))
    fault = MultiPrimary(lab, ["node1"])
    fault.inject()
    fault.recover()
    assert "names the primaries node1, node2, node3" in doubts(fault.verify_recovered())[0]


def test_a_member_that_is_a_secondary_for_a_moment_is_seen():
    """The witness reads its role."""
    lab, state = a_group()
    fault = MultiPrimary(lab, ["node1"])
    fault.inject()
    state["primaries"] = ["node1"]

    assert servers._contrary(lab.name, "node3", lab.servers["node3"]) == ["the role of node3 was SECONDARY"]
