"""Does each fault of a node prove that it took hold and that it is gone, and notice when it does nothing?"""

from types import SimpleNamespace

import pytest
from replication_lab.faults import disks
from replication_lab.faults.clock_skew import ClockSkew
from replication_lab.faults.cpu_and_memory import CpuSqueeze, MemorySqueeze, Pause
from replication_lab.faults.cut import Flap
from replication_lab.faults.fault import injected
from replication_lab.faults.kill import Crash, Kill, Restart, Stop
from replication_lab.faults.schedule import FaultSchedule
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.disk import Limits
from replication_lab.model.lab.storage import Storage
from replication_lab.world import catalogue, clock
from replication_lab.world.disks.spindle import Spindle, settings_of

from tests.fakes.machine import NODES, Disk, doubts, machine_without_waiting


@pytest.fixture
def lab(monkeypatch):
    return machine_without_waiting(monkeypatch)


def hour_ahead(lab, nodes):
    return ClockSkew(lab, nodes, 3600)


@pytest.mark.parametrize("kind", [Kill, Stop, Restart, Crash, Pause, CpuSqueeze, MemorySqueeze, hour_ahead])
def test_a_fault_is_seen_and_gone_afterwards(lab, kind):
    """Proofs of its beginning, proofs of its end, and the machine as it was."""
    fault = kind(lab, NODES)

    fault.inject()
    assert doubts(fault.verify()) == []
    fault.recover()
    assert doubts(fault.verify_recovered()) == []
    fault.close()

    assert (lab.status, lab.quota, lab.memory, lab.ahead) == ("running", 0, 0, 0)


@pytest.mark.parametrize(
    ("kind", "method", "found"),
    [
        (Pause, "pause", "an answer"),
        (CpuSqueeze, "limit_cpu", "no limit"),
        (MemorySqueeze, "limit_memory", "no limit"),
        (hour_ahead, "set_clock", "+0 s"),
    ],
)
def test_a_fault_that_does_nothing_is_noticed(lab, monkeypatch, kind, method, found):
    """Sabotage: the engine says yes and does nothing."""
    monkeypatch.setattr(lab, method, lambda *_: None)
    fault = kind(lab, NODES)
    fault.inject()

    assert f"found {found}" in doubts(fault.verify())[0]


@pytest.mark.parametrize(("kind", "method"), [(Kill, "kill"), (Stop, "stop")])
def test_a_node_that_does_not_end_is_noticed(lab, monkeypatch, refused, kind, method):
    """It is waited for, and its end does not come."""
    monkeypatch.setattr(lab, method, lambda *_: None)

    assert "server to exit" in refused(kind(lab, NODES).inject).found


def test_a_node_that_ends_in_another_way_was_not_stopped(lab, monkeypatch):
    """SIGKILL after the grace is no gentle end."""
    monkeypatch.setattr(lab, "stop", lab.kill)
    fault = Stop(lab, NODES)
    fault.inject()

    assert "exited with status 137" in doubts(fault.verify())[0]


@pytest.mark.parametrize(("kind", "method"), [(Restart, "stop"), (Crash, "kill")])
def test_a_restart_that_was_none_is_noticed(lab, monkeypatch, kind, method):
    """The container runs, and always has."""
    monkeypatch.setattr(lab, method, lambda *_: None)
    monkeypatch.setattr(lab, "start_again", lambda *_: None)
    fault = kind(lab, NODES)
    fault.inject()

    assert "is restarted" in doubts(fault.verify())[0]


def test_a_node_that_does_not_come_back_is_told_with_its_log(lab, refused):
    """Started again, and ended again."""
    fault = Kill(lab, NODES)
    fault.inject()

    assert "its last words" in refused(fault.verify_recovered).found


@pytest.mark.parametrize(("kind", "counter"), [(CpuSqueeze, "throttled"), (MemorySqueeze, "memory_used")])
def test_a_server_that_never_meets_its_limit_was_not_squeezed(lab, monkeypatch, kind, counter):
    """The limit alone is no fault: an idle server does not notice it."""
    monkeypatch.setattr(lab, counter, lambda _node: 3)
    fault = kind(lab, NODES)
    fault.inject()
    fault.recover()

    assert "limit" in doubts(fault.verify_recovered())[0]


@pytest.mark.parametrize(
    ("kind", "method"), [(CpuSqueeze, "limit_cpu"), (MemorySqueeze, "limit_memory"), (hour_ahead, "set_clock")]
)
def test_what_stays_is_noticed(lab, monkeypatch, kind, method):
    """The proof of the end asks the engine, or the server."""
    fault = kind(lab, NODES)
    fault.inject()
    monkeypatch.setattr(lab, method, lambda *_: None)
    fault.recover()

    assert "again" in doubts(fault.verify_recovered())[-1]


def test_a_frozen_node_that_somebody_thawed_is_left_alone(lab):
    """Undoing undoes itself and nothing else."""
    fault = Pause(lab, NODES)
    fault.inject()
    lab.node("server").unpause()

    fault.recover()

    assert lab.status == "running"


def test_a_limit_is_taken_back_though_its_effect_cannot_be_read(lab, monkeypatch):
    """The error is raised after that: nothing proves the fault, and the next load must not run under it."""
    fault = CpuSqueeze(lab, NODES)
    fault.inject()
    monkeypatch.setattr(lab, "throttled", lambda _: int("no number"))
    assert lab.quota

    with pytest.raises(ValueError, match="no number"):
        fault.recover()
    assert not lab.quota
    with pytest.raises(ValueError, match="no number"), injected(CpuSqueeze(lab, NODES)):
        pytest.fail("it was not injected")


# --- disks ------------------------------------------------------------------------------------------------------------


class Array:
    """An array of one disk with 2 GiB of room."""

    def __init__(self, level):
        self.node, self.storage, self.disks = "server", Storage(level=level), {"disk1": Disk()}
        self.left = 2 << 30

    def disk(self, name):
        return self.disks[name]

    def limit(self, limits):
        self.disks["disk1"].now = limits

    def limits(self):
        return {name: disk.limits() for name, disk in self.disks.items()}

    def looks(self):
        return {name: disk.stats() for name, disk in self.disks.items()}

    def replace(self, name):
        self.disks[name] = Disk()

    def free_bytes(self):
        return self.left

    def in_filesystem(self, *command):
        self.left = 2 << 30 if command[0] == "rm" else 4096


@pytest.fixture(params=["raid1"])
def array(monkeypatch, request):
    made = Array(request.param)
    monkeypatch.setattr(disks.arrays, "array", lambda lab, node: made)
    return made


DISK_FAULTS = [disks.DiskSlow, disks.DiskFull, disks.DiskFail]


@pytest.mark.parametrize("kind", DISK_FAULTS)
def test_a_disks_fault_is_seen_and_gone_afterwards(lab, array, kind):
    """Slow, full, failed; and as it was."""
    fault = kind(lab, NODES)

    fault.inject()
    assert doubts(fault.verify()) == []
    fault.recover()
    assert doubts(fault.verify_recovered()) == []


@pytest.mark.parametrize(("kind", "method"), list(zip(DISK_FAULTS, ["limit", "in_filesystem", "fail"], strict=True)))
def test_a_disks_fault_that_does_nothing_is_noticed(lab, array, monkeypatch, kind, method):
    """Sabotage: the disk is as good as ever."""
    monkeypatch.setattr(array if method != "fail" else array.disks["disk1"], method, lambda *_: None)
    fault = kind(lab, NODES)
    fault.inject()

    assert doubts(fault.verify())


@pytest.mark.parametrize("kind", [disks.DiskSlow, disks.DiskFail])
def test_a_disks_fault_that_nobody_met_is_noticed(lab, array, kind):
    """Without a load on it a slow or a failed disk shows nothing."""
    array.disks["disk1"].loaded = False
    fault = kind(lab, NODES)
    fault.inject()
    fault.verify()
    fault.recover()

    assert doubts(fault.verify_recovered())


def test_disks_that_were_fast_in_between_are_noticed(lab, array):
    """Sabotage: the limit is lifted while the fault acts, and is back when it is asked for."""
    fault = disks.DiskSlow(lab, NODES)
    fault.inject()
    array.disks["disk1"].writes += 100
    fault.recover()

    assert doubts(fault.verify_recovered())


def test_a_server_that_ends_on_a_full_disk_is_started_again(lab, array):
    """MySQL ends; MariaDB waits until there is space."""
    fault = FaultSchedule([(0, disks.DiskFull(lab, NODES))])
    fault.inject()
    lab.node("server").kill()
    assert fault.ended == []
    fault.recover()

    assert fault.ended == ["server"] and lab.node("server").state()[0] == "running"


@pytest.mark.parametrize("array", ["raid0", "single"], indirect=True)
def test_a_disk_whose_data_nobody_else_has_is_not_failed(lab, array, refused):
    """There would be no way back."""
    assert "losing one disk loses all data" in refused(disks.DiskFail, lab, NODES).found


@pytest.mark.parametrize("name", sorted(catalogue.disks()))
def test_each_disk_that_is_offered_keeps_its_limits_in_the_eyes_of_the_proof(name):
    """It has the time of a request in whole microseconds, and reports 4098 writes a second for 4100."""
    limits = catalogue.disk(name).limits
    settings = SimpleNamespace(**settings_of(limits))
    disk = Spindle(None)
    disk.settings = lambda: settings

    assert disks.set_to({"disk1": disk.limits()}, {"disk1": limits}, "as it was").ok
    settings.write_us = 2 * settings.write_us + 100
    assert not disks.set_to({"disk1": disk.limits()}, {"disk1": limits}, "as it was").ok


def test_limits_that_no_disk_reports_are_no_proof():
    """Nothing was compared."""
    assert disks.set_to({"disk1": Limits()}, {"disk1": Limits()}, "as they were").ok
    assert (
        disks.set_to({}, {}, "as they were").doubt
        == "as they were: expected the limits of the case, found no disk reported"
    )


# --- links ------------------------------------------------------------------------------------------------------------


def test_a_flapping_link_is_seen_to_be_off_each_time(monkeypatch, lab):
    """It stops with its undoing."""
    acts = []

    class Cut:
        def __init__(self, lab, links):
            pass

        def inject(self):
            acts.append("off")

        def verify_still_cut(self):
            return [Proof(what="it is cut", expected="nothing", found="nothing", ok=True)]

        def recover(self):
            acts.append("on")

        def verify_recovered(self):
            return [Proof(what="it is whole", expected="all", found="all", ok=True)]

        def close(self):
            acts.append("closed")

    monkeypatch.setattr("replication_lab.faults.cut.Cut", Cut)
    monkeypatch.setattr(clock, "pause", lambda seconds, unless: unless.wait(0.001))
    monkeypatch.setattr(clock, "wait_until", lambda condition, *_: _until(condition))
    fault = Flap(lab, ["source-replica"])

    fault.inject()
    first, again = fault.verify(), fault.verify()
    fault.recover()
    fault.close()
    assert doubts(first) == doubts(again) == []
    assert first and again, "asked again at once, it has the last interruption to show"

    assert acts[0] == "off" and acts[-2:] == ["on", "closed"]


def _until(condition):
    while not condition():
        pass
