"""Is work of others than lab and harness noise?"""

import os
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest
from replication_lab.probes import noise
from replication_lab.world import host
from replication_lab.world.processes import CpuByProcess

from tests.fakes.clock import FakeClock


class Machine:
    """A lab and a host with given CPU seconds."""

    def __init__(self, monkeypatch):
        self.cpu, self.used = host.CpuTime(busy=0, stolen=0, total=0, own=0), {"source": 0.0}
        self.all_containers = SimpleNamespace(every={}, subnets=(), cpu_seconds=lambda: self.used)
        self.ports = {}
        self.pinned, self.cpus = {}, {0: (0.0, 0.0), 1: (0.0, 0.0)}
        monkeypatch.setattr(host.CpuTime, "read", lambda: self.cpu)
        monkeypatch.setattr(noise, "of_published_ports", lambda _subnets: self.ports)
        monkeypatch.setattr(host, "seconds_by_cpu", lambda: self.cpus)
        monkeypatch.setattr(host, "load1", lambda: 0.5)
        monkeypatch.setattr(host, "cpu_pressure", lambda: None)

    def after(self, **cpu):
        """Return the noise of a load of 100 CPU seconds."""
        meter = noise.NoiseMeter.start([self])
        self.used = {"source": cpu.pop("containers", 0)}
        self.cpu = host.CpuTime(**{"busy": 0, "stolen": 0, "total": 100, "own": 0, **cpu})
        return meter.read()


@pytest.mark.parametrize(
    ("cpu", "why"),
    [
        ({"busy": 24}, ""),
        ({"busy": 26}, "other programs used 26% of the CPUs"),
        ({"busy": 90, "containers": 60, "own": 10}, ""),
        ({"busy": 90, "containers": 40, "own": 10}, "other programs used 40% of the CPUs"),
        ({"stolen": 4}, ""),
        ({"stolen": 6}, "6% of the CPU time was stolen"),
        ({"busy": 5, "containers": 20}, ""),
    ],
)
def test_noise_is_what_neither_lab_nor_harness_used(cpu, why, monkeypatch):
    """The limits are a quarter of foreign CPU and a twentieth stolen; the lab's own work never counts as noise."""
    found = Machine(monkeypatch).after(**cpu)

    assert found.quiet == (not why)
    assert found.why.startswith(why) and found.foreign_cpu >= 0


def test_the_share_of_the_lab_and_the_harness_is_recorded(monkeypatch):
    """Of 100 CPU seconds the containers used 40 and the clients in the harness 10."""
    found = Machine(monkeypatch).after(busy=70, containers=40, own=10)

    assert (found.own_cpu, found.foreign_cpu) == (0.5, 0.2)


@pytest.mark.parametrize(
    ("busy", "own", "why"),
    [
        (40, 0, ""),
        (44, 0, "other programs used 28% of CPU 0, to which nodes are pinned (limit 25%)"),
        # The clients may be in the harness itself, on any CPU.
        (44, 10, ""),
    ],
)
def test_the_cpus_that_nodes_are_pinned_to_have_the_limit_of_all(busy, own, why, monkeypatch):
    """Of two CPUs of 50 s each a source has one and used 30 s of it; others used less than a quarter of both."""
    machine = Machine(monkeypatch)
    machine.pinned = {"source": "0"}
    meter = noise.NoiseMeter.start([machine])
    machine.used, machine.cpus = {"source": 30.0}, {0: (float(busy), 50.0), 1: (2.0, 50.0)}
    machine.cpu = host.CpuTime(busy=busy + 2, stolen=0, total=100, own=own)
    found = meter.read()

    assert found.quiet == (not why)
    assert found.why.startswith(why)


def test_the_processes_that_publish_a_labs_ports_are_no_other_program(monkeypatch):
    """They used 30 of 40 CPU seconds. One that was started meanwhile counts from zero."""
    machine = Machine(monkeypatch)
    machine.ports = {(1, 0.0): 500.0, (2, 0.0): 7.0}
    meter = noise.NoiseMeter.start([machine])
    machine.ports = {(1, 0.0): 520.0, (3, 1.0): 10.0}
    machine.cpu = host.CpuTime(busy=40, stolen=0, total=100, own=0)
    found = meter.read()

    assert found.quiet and (found.own_cpu, found.foreign_cpu) == (0.3, 0.1)


def test_a_container_that_ended_by_itself_hides_no_other_program(monkeypatch):
    """What it used is not known then, and it is never deducted from what others used."""
    machine = Machine(monkeypatch)
    machine.used = {"source": 500.0, "replica": 3.0}
    meter = noise.NoiseMeter.start([machine])
    machine.used = {"source": 5.0, "replica": 13.0}
    machine.cpu = host.CpuTime(busy=60, stolen=0, total=100, own=0)
    found = meter.read()

    assert (found.own_cpu, found.foreign_cpu) == (0.1, 0.5)


def test_this_machine_tells_the_seconds_of_each_cpu():
    """The CPUs that this process may use are among them; no CPU was busy for longer than it exists."""
    found = host.seconds_by_cpu()

    assert os.sched_getaffinity(0) <= found.keys()
    assert all(0 <= busy <= total for busy, total in found.values())


# --- by whom ----------------------------------------------------------------------------------------------------------


def by_process(**used: float) -> CpuByProcess:
    """Return processes with their CPU seconds."""
    keys = {name: (number, 0.0) for number, name in enumerate(used)}
    return CpuByProcess({keys[name]: seconds for name, seconds in used.items()}, {keys[name]: name for name in used})


def test_the_busiest_processes_are_those_that_used_most_since_then():
    """Not those that used most since they started."""
    before, now = by_process(old=500.0, new=0.0), by_process(old=501.0, new=3.0)

    assert now.busiest_since(before) == [("new", 3.0), ("old", 1.0)]


def test_a_step_of_the_clock_makes_no_process_a_new_one(monkeypatch):
    """All that a process has ever used would count as used since."""
    before, boot_time = set(CpuByProcess.read().used), psutil.boot_time()
    monkeypatch.setattr("psutil._psplatform.boot_time", lambda: boot_time + 90)
    psutil.process_iter.cache_clear()

    assert before & set(CpuByProcess.read().used)


@pytest.mark.whole
def test_a_process_of_this_machine_is_seen_and_this_one_is_not():
    """A child that computes is named; the harness's own work is no noise."""
    before = CpuByProcess.read()
    code = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        seen = {process.pid for process in busy_since(before)}
        child.communicate(b"\n")

    assert child.pid in seen
    assert os.getpid() not in {process.pid for process in CpuByProcess.read().used}


def busy_since(before):
    return [key for key, used in CpuByProcess.read().used.items() if used - before.used.get(key, 0.0) >= 0.05]


def test_noise_names_who_made_it(monkeypatch):
    """So that the user knows what to stop."""
    times = iter([by_process(backup=0.0), by_process(backup=1.5)])
    monkeypatch.setattr(noise.CpuByProcess, "read", lambda *_: next(times))
    monkeypatch.setattr(noise.clock, "timer", iter([0.0, 2.0]).__next__)

    found = Machine(monkeypatch).after(busy=40)

    assert found.why == "other programs used 40% of the CPUs (limit 25%): backup 75% of a CPU"


@pytest.mark.parametrize(("becomes_quiet", "expected"), [(True, True), (False, False)])
def test_waiting_for_quiet_ends_when_it_is_or_when_the_time_is_over(becomes_quiet, expected, monkeypatch):
    """Three quiet windows one after another are quiet; a machine that stays busy is given up, and both are said."""
    fake, told = FakeClock(), []
    monkeypatch.setattr(noise.clock, "timer", fake.timer)
    monkeypatch.setattr(noise.clock, "pause", fake.pause)
    monkeypatch.setattr(noise.clock, "wait_until", fake.wait_until)
    monkeypatch.setattr(noise.CpuByProcess, "read", lambda *_: by_process(backup=2 * fake.timer()))
    monkeypatch.setattr(host, "load1", lambda: 0.5)
    monkeypatch.setattr(host, "cpu_pressure", lambda: None)

    def read():
        busy = min(fake.timer(), 5.0) if becomes_quiet else fake.timer()
        return host.CpuTime(busy=busy, stolen=0, total=2 * fake.timer(), own=0)

    monkeypatch.setattr(host.CpuTime, "read", read)

    assert noise.wait_for_quiet([], 60, told.append) is expected
    assert len(told) == 1 and "backup" in told[0]
    assert fake.timer() < 15 if expected else fake.timer() >= 60
