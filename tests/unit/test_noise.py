"""Is work of others than lab and harness noise?"""

import pytest
from replication_lab.probes import noise
from replication_lab.world import host


class Machine:
    """A lab and a host with given CPU seconds."""

    def __init__(self, monkeypatch):
        self.cpu, self.containers = host.CpuTime(busy=0, stolen=0, total=0, own=0), 0.0
        monkeypatch.setattr(host.CpuTime, "read", lambda: self.cpu)
        monkeypatch.setattr(host, "load1", lambda: 0.5)
        monkeypatch.setattr(host, "cpu_pressure", lambda: None)

    def cpu_seconds(self) -> float:
        return self.containers

    def after(self, **cpu):
        """Return the noise of a load of 100 CPU seconds."""
        meter = noise.NoiseMeter.start([self])
        self.containers += cpu.pop("containers", 0)
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
