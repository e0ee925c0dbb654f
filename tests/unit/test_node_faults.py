"""Does each fault of a node prove that it took hold and that it is gone, and notice when it does nothing?"""

from types import SimpleNamespace

import pytest
from replication_lab.faults import disk_failure, disk_full, disk_slow, drbd_disk_failure, power_loss, split_brain
from replication_lab.faults.clock_skew import ClockSkew
from replication_lab.faults.cpu_limit import CpuSqueeze
from replication_lab.faults.flap import Flap
from replication_lab.faults.kill import Kill
from replication_lab.faults.memory_limit import MemorySqueeze
from replication_lab.faults.pause import Pause
from replication_lab.faults.restart import Restart
from replication_lab.faults.stop import Stop
from replication_lab.model.disk import Limits
from replication_lab.model.errors import LabError
from replication_lab.model.proof import Proof
from replication_lab.model.storage import Storage
from replication_lab.world import catalogue, clock
from replication_lab.world.disks.spindle import Stats
from replication_lab.world.drbd import Status

from tests.fakes.parts import LabOfNames

NODES = ["server"]


class Connection:
    def close(self):
        pass


class Machine(LabOfNames):
    """A lab of one node whose container obeys, and whose server answers while it runs."""

    topology = catalogue.topology("single")

    def __init__(self):
        self.status, self.code, self.starts = "running", 0, 1
        self.quota, self.memory, self.periods, self.commands = 0, 0, 0, []
        self.ahead = 0

    def _ended(self, code):
        self.status, self.code = "exited", code

    def kill(self, node):
        self._ended(137)

    def stop(self, node):
        self._ended(0)

    def start_again(self, node):
        self.status, self.starts = "running", self.starts + 1

    def started_at(self, node):
        return f"2030-01-01T12:00:0{self.starts}"

    def pause(self, node):
        self.status = "paused"

    def unpause(self, node):
        self.status = "running"

    def state_of(self, node):
        return self.status, self.code

    def logs(self, node, lines=12):
        return "its last words"

    def cpu_quota_us(self, node):
        return self.quota

    def limit_cpu(self, node, quota, period):
        self.quota = quota

    def throttled(self, node):
        self.periods += bool(self.quota)
        return self.periods

    def memory_mib(self, node):
        return 100.0

    def memory_limit(self, node):
        return self.memory

    def memory_used(self, node):
        return self.memory

    def set_clock(self, node, seconds):
        self.ahead = seconds

    def seconds_ahead(self):
        return self.ahead

    def limit_memory(self, node, limit):
        self.memory = limit

    def run(self, node, *command):
        self.commands.append(command)

    # As a server.

    def server(self, node):
        return self

    def version(self):
        if self.status != "running":
            raise LabError("it does not answer", "a connection")
        return "fake"

    def connect(self, answer_seconds=1.0):
        self.version()
        return Connection()


@pytest.fixture
def lab(monkeypatch):
    """Return a lab of one machine, in which every wait ends at once."""

    def wait_until(condition, what, seconds, every=0.05, hint=""):
        if not (found := condition()):
            raise LabError(f"{what} did not come", "it")
        return found

    monkeypatch.setattr(clock, "wait_until", wait_until)
    return Machine()


def hour_ahead(lab, nodes):
    return ClockSkew(lab, nodes, 3600)


def doubts(proofs: list[Proof]) -> list[str]:
    assert proofs
    return [proof.doubt for proof in proofs if proof.doubt]


@pytest.mark.parametrize("kind", [Kill, Stop, Restart, Pause, CpuSqueeze, MemorySqueeze, hour_ahead])
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

    assert "the end of server" in refused(kind(lab, NODES).inject).found


def test_a_node_that_ends_in_another_way_was_not_stopped(lab, monkeypatch):
    """SIGKILL after the grace is no gentle end."""
    monkeypatch.setattr(lab, "stop", lab.kill)
    fault = Stop(lab, NODES)
    fault.inject()

    assert "exited with status 137" in doubts(fault.verify())[0]


def test_a_restart_that_was_none_is_noticed(lab, monkeypatch):
    """The container runs, and always has."""
    monkeypatch.setattr(lab, "stop", lambda *_: None)
    monkeypatch.setattr(lab, "start_again", lambda *_: None)
    fault = Restart(lab, NODES)
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

    assert "ran into its limit" in doubts(fault.verify_recovered())[0]


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


# --- disks ------------------------------------------------------------------------------------------------------------


class Disk:
    """A disk that a load keeps busy; at each look another second has passed."""

    def __init__(self):
        self.failed, self.errors, self.now = False, 0, Limits(write_iops=400)
        self.loaded, self.seconds, self.writes = True, 0, 0

    def limits(self):
        return self.now

    def fail(self):
        self.failed = True

    def stats(self):
        self.seconds += 1
        self.writes += self.now.write_iops if self.loaded else 0
        self.errors += self.failed and self.loaded
        busy = self.seconds * self.loaded * 1_000_000
        return Stats(0, self.writes, 0, self.errors, 0, 0, 0, busy, self.seconds * 1_000_000, self.failed)


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

    def room(self):
        return self.left

    def in_filesystem(self, *command):
        self.left = 2 << 30 if command[0] == "rm" else 4096


@pytest.fixture(params=["raid1"])
def array(monkeypatch, request):
    made = Array(request.param)
    for module in (disk_slow, disk_full, disk_failure):
        monkeypatch.setattr(module.arrays, "array", lambda lab, node: made)
    return made


DISK_FAULTS = [disk_slow.DiskSlow, disk_full.DiskFull, disk_failure.DiskFail]


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


@pytest.mark.parametrize("kind", [disk_slow.DiskSlow, disk_failure.DiskFail])
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
    fault = disk_slow.DiskSlow(lab, NODES)
    fault.inject()
    array.disks["disk1"].writes += 100
    fault.recover()

    assert doubts(fault.verify_recovered())


@pytest.mark.parametrize("array", ["raid0", "single"], indirect=True)
def test_a_disk_whose_data_nobody_else_has_is_not_failed(lab, array, refused):
    """There would be no way back."""
    assert "losing one disk loses all data" in refused(disk_failure.DiskFail, lab, NODES).found


class Resource:
    """A machine's DRBD resource on a disk, of which it lets go at the first error."""

    def __init__(self):
        self.disk, self.told = Disk(), []
        self.disk.heal = lambda: setattr(self.disk, "failed", False)

        self.detached = False

    def status(self):
        self.detached |= self.disk.failed
        return Status(connection="Connected", disk="Diskless" if self.detached else "UpToDate")

    def wait_until_answers(self):
        return self.status()

    def tell(self, word):
        self.told.append(word)
        self.detached = False


@pytest.fixture
def resource(monkeypatch):
    made = Resource()
    monkeypatch.setattr(drbd_disk_failure.drbd, "peers", lambda lab: dict.fromkeys(NODES, made))
    return made


def test_a_disk_under_drbd_fails_and_is_attached_again(lab, resource):
    """DRBD says so, both times."""
    fault = drbd_disk_failure.DrbdDiskFail(lab, NODES)
    fault.inject()
    assert doubts(fault.verify()) == []
    fault.recover()

    assert doubts(fault.verify_recovered()) == []
    assert set(resource.told) == {"attach"}


def test_a_disk_under_drbd_that_failed_unnoticed_is_doubted(lab, resource, monkeypatch, refused):
    """No write reached it: the server did not continue without it."""
    monkeypatch.setattr(drbd_disk_failure, "DETACH_SECONDS", 0.01)
    monkeypatch.setattr(resource, "status", lambda: Status(connection="Connected", disk="UpToDate"))
    fault = drbd_disk_failure.DrbdDiskFail(lab, NODES)
    fault.inject()

    assert "to meet the error" in refused(fault.verify).expected + refused(fault.verify).found
    fault.recover()
    assert doubts(fault.verify_recovered())
    assert [] == resource.told


class TwoMachines(LabOfNames):
    """A lab of two machines with a replicated disk: what is done to containers and links is written down."""

    topology = catalogue.topology("drbd")

    def __init__(self):
        self.done, self.states = [], {}
        self.machines = {node: TwoMachines.One(self, node) for node in ("node1", "node2")}

    class One:
        def __init__(self, lab, node):
            self.lab, self.node, self.disk = lab, node, self
            self.role, self.split_brain = "Primary" if node == "node1" else "Secondary", False

        def status(self):
            connection = "Connected" if self.lab.whole else "WFConnection"
            peer = "Primary" if self.lab.whole and self.node == "node2" else "Unknown"
            split = self.lab.whole and {one.role for one in self.lab.machines.values()} == {"Primary"}
            return Status(connection=connection, role=self.role, peer_role=peer, split_brain=split)

        wait_until_answers = status

        def tell(self, word):
            self.lab.done.append((self.node, word))
            self.role = "Primary"

        def power_cut(self):
            self.lab.kill(f"{self.node}-disk1")
            self.role = "Secondary"

        def power_on(self):
            for service in (f"{self.node}-disk1", self.node):
                self.lab.start_again(service)

    whole = True

    def link(self, _name):
        return SimpleNamespace(cut=lambda: setattr(self, "whole", False), enable=lambda: setattr(self, "whole", True))

    def kill(self, service):
        self.done.append(("kill", service))
        self.states[service] = ("exited", 137)

    def start_again(self, service):
        self.done.append(("start", service))
        self.states.pop(service)

    def state_of(self, service):
        return self.states.get(service, ("running", 0))

    def is_healthy(self, service):
        return service not in self.states


@pytest.fixture
def two(monkeypatch):
    lab = TwoMachines()
    monkeypatch.setattr(split_brain.drbd, "peers", lambda lab: lab.machines)
    monkeypatch.setattr(split_brain.drbd, "Peer", lambda lab, node: lab.machines[node])
    monkeypatch.setattr(power_loss.drbd, "primary", lambda lab: lab.machines["node1"])
    monkeypatch.setattr(power_loss.drbd, "wait_until_whole", lambda lab: None)
    monkeypatch.setattr(split_brain.replicated_disk, "wait_until_serves", lambda lab, node: None)
    monkeypatch.setattr(split_brain.replicated_disk, "resolve", lambda lab, node: lab.done.append((node, "resolve")))
    monkeypatch.setattr(power_loss.replicated_disk, "promote", lambda lab, node: lab.done.append((node, "promote")))
    return lab


def test_a_split_brain_is_made_seen_and_ended(two):
    """Two primaries while the link is cut; DRBD notices when they meet, and the victim gives its rows up."""
    fault = split_brain.SplitBrain(two, ["node2"])
    fault.inject()
    assert doubts(fault.verify()) == []
    fault.recover()

    assert doubts(fault.verify_recovered()) == []
    assert [("node2", "promote"), ("node2", "resolve")] == two.done


def test_a_machine_that_did_not_become_primary_is_no_split_brain(two, monkeypatch):
    """Nothing is given up for it, and nothing is proved."""
    monkeypatch.setattr(TwoMachines.One, "tell", lambda self, word: None)
    fault = split_brain.SplitBrain(two, ["node2"])
    fault.inject()
    found = fault.verify()
    fault.recover()

    assert doubts(found) and doubts(fault.verify_recovered())
    assert [] == two.done and two.whole


def test_a_power_cut_ends_machines_before_their_disks_and_starts_disks_first(two):
    """Without its disk a machine answers nothing; the former primary is primary again."""
    fault = power_loss.PowerCut(two, ["node1", "node2"])
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
    fault = power_loss.PowerCut(two, ["node1", "node2"])
    fault.inject()

    assert doubts(fault.verify())


# --- links ------------------------------------------------------------------------------------------------------------


def test_a_flapping_link_is_seen_to_be_off_each_time(monkeypatch, lab):
    """It stops with its undoing."""
    acts = []

    class Cut:
        def __init__(self, lab, links):
            pass

        def inject(self):
            acts.append("off")

        def verify_anew(self):
            return [Proof(what="it is cut", expected="nothing", found="nothing", ok=True)]

        def recover(self):
            acts.append("on")

        def verify_recovered(self):
            return [Proof(what="it is whole", expected="all", found="all", ok=True)]

        def close(self):
            acts.append("closed")

    monkeypatch.setattr("replication_lab.faults.flap.Cut", Cut)
    monkeypatch.setattr(clock, "pause", lambda seconds, unless: unless.wait(0.001))
    monkeypatch.setattr(clock, "wait_until", lambda condition, *_: _until(condition))
    fault = Flap(lab, ["source-replica"])

    fault.inject()
    assert doubts(fault.verify()) == []
    fault.recover()
    fault.close()

    assert acts[0] == "off" and acts[-2:] == ["on", "closed"]


def _until(condition):
    while not condition():
        pass
