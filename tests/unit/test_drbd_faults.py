"""Are faults of replicated disks and their machines seen, undone, and doubted where they did not happen?"""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from replication_lab.faults import drbd
from replication_lab.world import catalogue
from replication_lab.world.machines.drbd import ResourceStatus

from tests.fakes.machine import NODES, Disk, doubts, machine_without_waiting
from tests.fakes.parts import LabOfNames


@pytest.fixture
def lab(monkeypatch):
    return machine_without_waiting(monkeypatch)


class Resource:
    """A machine's DRBD resource on a disk, of which it lets go at the first error."""

    def __init__(self):
        disk: Any = Disk()
        disk.heal = lambda: setattr(disk, "failed", False)
        self.disk, self.told = disk, []

        self.detached = False

    def status(self):
        self.detached |= self.disk.failed
        return ResourceStatus(connection="Connected", disk="Diskless" if self.detached else "UpToDate")

    def wait_until_answers(self):
        return self.status()

    def tell(self, word):
        self.told.append(word)
        self.detached = False


@pytest.fixture
def resource(monkeypatch):
    made = Resource()
    monkeypatch.setattr(drbd.drbd, "peers", lambda lab: dict.fromkeys(NODES, made))
    return made


def test_a_disk_under_drbd_fails_and_is_attached_again(lab, resource):
    """DRBD says so, both times."""
    fault = drbd.DrbdDiskFail(lab, NODES)
    fault.inject()
    assert doubts(fault.verify()) == []
    fault.recover()

    assert doubts(fault.verify_recovered()) == []
    assert set(resource.told) == {"attach"}


def test_a_disk_under_drbd_that_failed_unnoticed_is_doubted(lab, resource, monkeypatch, refused):
    """No write reached it: the server did not continue without it."""
    monkeypatch.setattr(drbd, "DETACH_SECONDS", 0.01)
    monkeypatch.setattr(resource, "status", lambda: ResourceStatus(connection="Connected", disk="UpToDate"))
    fault = drbd.DrbdDiskFail(lab, NODES)
    fault.inject()

    assert "to hit an I/O error" in refused(fault.verify).expected + refused(fault.verify).found
    fault.recover()
    assert doubts(fault.verify_recovered())
    assert [] == resource.told


class TwoMachines(LabOfNames):
    """A lab of two machines with a replicated disk: what is done to containers and links is written down."""

    topology = catalogue.topology("drbd")

    def __init__(self):
        self.done, self.state_by_service = [], {}
        self.machines = {node: TwoMachines.One(self, node) for node in ("node1", "node2")}

    class One:
        def __init__(self, lab, node):
            self.lab, self.node, self.disk = lab, node, self
            self.role, self.split_brain = "Primary" if node == "node1" else "Secondary", False

        def status(self):
            connection = "Connected" if self.lab.whole else "WFConnection"
            peer = "Primary" if self.lab.whole and self.node == "node2" else "Unknown"
            split = self.lab.whole and {one.role for one in self.lab.machines.values()} == {"Primary"}
            return ResourceStatus(connection=connection, role=self.role, peer_role=peer, split_brain=split)

        wait_until_answers = status

        def tell(self, word):
            self.lab.done.append((self.node, word))
            self.role = "Primary"

        def wait_until_serves(self):
            pass

        def power_cut(self):
            self.lab.kill(f"{self.node}-disk1")
            self.role = "Secondary"

        def power_on(self):
            for service in (f"{self.node}-disk1", self.node):
                self.lab.start_again(service)

    whole = True

    def link(self, _name):
        return SimpleNamespace(cut=lambda: setattr(self, "whole", False), enable=lambda: setattr(self, "whole", True))

    def ending(self, _service):
        """Return a block that does nothing: no noise is measured here."""
        return nullcontext()

    def kill(self, service, _signal="SIGKILL"):
        self.done.append(("kill", service))
        self.state_by_service[service] = ("exited", 137)

    def start_again(self, service):
        self.done.append(("start", service))
        self.state_by_service.pop(service)

    def state_of(self, service):
        return self.state_by_service.get(service, ("running", 0))

    def is_healthy(self, service):
        return service not in self.state_by_service


@pytest.fixture
def two(monkeypatch):
    lab = TwoMachines()
    monkeypatch.setattr(drbd.drbd, "peers", lambda lab: lab.machines)
    monkeypatch.setattr(drbd.drbd, "Peer", lambda lab, node: lab.machines[node])
    monkeypatch.setattr(drbd.drbd, "primary", lambda lab: lab.machines["node1"])
    monkeypatch.setattr(drbd.drbd, "wait_until_whole", lambda lab: None)
    roles = SimpleNamespace(
        take_back=lambda node, discard_errant: lab.done.append((node, "resolve")),
        take_over=lambda node: lab.done.append((node, "promote")),
    )
    monkeypatch.setattr(drbd, "replication", SimpleNamespace(of=lambda _lab: roles))
    return lab


def test_a_split_brain_is_made_seen_and_ended(two):
    """Two primaries while the link is cut; DRBD notices when they meet, and the victim gives its rows up."""
    fault = drbd.SplitBrain(two, ["node2"])
    fault.inject()
    assert doubts(fault.verify()) == []
    fault.recover()

    assert doubts(fault.verify_recovered()) == []
    assert [("node2", "promote"), ("node2", "resolve")] == two.done


def test_a_machine_that_did_not_become_primary_is_no_split_brain(two, monkeypatch):
    """Nothing is given up for it, and nothing is proved."""
    monkeypatch.setattr(TwoMachines.One, "tell", lambda self, word: None)
    fault = drbd.SplitBrain(two, ["node2"])
    fault.inject()
    found = fault.verify()
    fault.recover()

    assert doubts(found) and doubts(fault.verify_recovered())
    assert [] == two.done and two.whole


def test_a_power_cut_ends_machines_before_their_disks_and_starts_disks_first(two):
    """Without its disk a machine answers nothing; the former primary is primary again."""
    fault = drbd.PowerCut(two, ["node1", "node2"])
    fault.inject()
    assert doubts(fault.verify()) == []
    killed = [service for what, service in two.done if what == "kill"]
    fault.recover()

    assert doubts(fault.verify_recovered()) == []
    assert all(killed.index(node) < killed.index(f"{node}-disk1") for node in ("node1", "node2"))
    started = [service for what, service in two.done if what == "start"]
    assert all(started.index(f"{node}-disk1") < started.index(node) for node in ("node1", "node2"))
    assert ("node1", "promote") == two.done[-1]


def test_a_disk_that_kept_its_power_is_noticed(two, monkeypatch):
    """What it had not flushed would still be there."""
    monkeypatch.setattr(TwoMachines.One, "power_cut", lambda self: None)
    fault = drbd.PowerCut(two, ["node1", "node2"])
    fault.inject()

    assert doubts(fault.verify())
