"""Is the load of the engine's machine read where it runs, and one that cannot be read never taken for a quiet one?"""

import itertools
from types import SimpleNamespace

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.probes import noise
from replication_lab.probes.used import Reader, UsedSince
from replication_lab.world.docker import machine, reach
from replication_lab.world.host import BOOT, MachineFiles

FAR = machine.EngineMachine("Debian", "amd64", 2, 8192, "6.1", elsewhere="DOCKER_HOST leads to tcp://10.1.0.2:2376")
DESKTOP = machine.EngineMachine(
    machine.DESKTOP, "amd64", 4, 8192, "6.10", elsewhere="Docker Desktop runs the engine in a virtual machine"
)


@pytest.fixture
def at(monkeypatch):
    """Put the engine on another machine."""
    return lambda found: monkeypatch.setattr(machine, "facts", lambda: found)


NO_CONTAINERS = {"all_containers": SimpleNamespace(every={}, subnets=(), cpu_seconds_of=lambda *_: {}), "pinned": {}}


# The files of another machine of one CPU: half of its time goes to one program, which is not the lab's.
def files_of_another(second):
    ticks = 100 * second
    times = f"{ticks // 2} 0 0 {ticks // 2} 0 0 0 0 0 0"
    return {
        "/proc": "7\n2",
        "/proc/stat": f"cpu  {times}\ncpu0 {times}\n",
        "/proc/loadavg": "0.50 0.40 0.30 1/100 7\n",
        "/proc/7/stat": f"7 (backup) S 1 7 7 0 -1 0 0 0 0 0 {ticks // 2} 0 0 0 20 0 1 0 50 0",
        "/proc/sys/kernel/random/boot_id": "another\n",
    }


def test_the_load_of_an_engine_s_own_machine_is_read_there(at, monkeypatch):
    """What this process sees of its own machine says nothing of the engine's; this process runs elsewhere, too."""
    at(FAR)
    second = itertools.count()
    monkeypatch.setattr(reach, "files", lambda *_paths: MachineFiles(files_of_another(next(second))))
    monkeypatch.setattr(noise.threading.Thread, "start", lambda _self: None)
    monkeypatch.setattr(noise.threading.Thread, "join", lambda _self: None)
    meter = noise.NoiseMeter([])
    found = meter.read()

    assert (found.foreign_cpu, found.own_cpu, found.load1) == (0.5, 0.0, 0.5)
    assert found.why.startswith("other programs used 50% of the CPUs (limit 25%): backup")


def test_the_container_that_reads_the_machine_is_the_lab_s_own(at, monkeypatch):
    """The only busy program there is the lab's: it counts as used by the lab, and nobody is named."""
    at(FAR)
    group, second = f"/sys/fs/cgroup/system.slice/docker-{'a' * 64}.scope", itertools.count()

    def counted(_paths, _site):
        now = next(second)
        held = {**files_of_another(now), f"{group}/cpu.stat": f"usage_usec {now * 500_000}\n"}
        return MachineFiles({**held, f"{group}/cgroup.procs": "7\n"})

    monkeypatch.setattr(reach, "files", counted)
    monkeypatch.setattr(reach, "_hands", {"": SimpleNamespace(id="a" * 64), "tcp://10.1.0.9": SimpleNamespace(id="b")})
    reader = Reader([])
    found = UsedSince(reader.read(), reader.read())

    assert (found.foreign, found.own, list(found.foreign_cpu_seconds())) == (0.0, 0.5, [])


def test_a_busy_machine_of_the_harness_is_no_noise_there(at, monkeypatch):
    """Only the engine's machine is read: whatever this one does lengthens no commit of clients beside the nodes."""
    at(FAR)
    second = itertools.count()

    def quiet(_paths, _site):
        times = f"0 0 0 {100 * next(second)} 0 0 0 0 0 0"
        return MachineFiles({**files_of_another(0), "/proc/stat": f"cpu  {times}\ncpu0 {times}\n"})

    text = MachineFiles.text

    def read(self, path):
        return pytest.fail(f"{path} was read here") if self.held is None and path != BOOT else text(self, path)

    monkeypatch.setattr(MachineFiles, "text", read)
    monkeypatch.setattr(MachineFiles, "has_this_process", False)
    monkeypatch.setattr(reach, "files", quiet)
    monkeypatch.setattr(noise.threading.Thread, "start", lambda _self: None)
    found = noise.NoiseMeter([SimpleNamespace(clients_are_beside=True, **NO_CONTAINERS)]).read()

    assert found.quiet and found.foreign_cpu == 0.0


def test_a_load_that_cannot_be_read_is_not_quiet(at, monkeypatch):
    """The engine's machine runs no container that could read it."""
    at(FAR)

    def refuse(_paths, _site):
        raise LabError("no such image", "the image toxiproxy", "./lab doctor")

    monkeypatch.setattr(reach, "files", refuse)
    meter = noise.NoiseMeter([])
    meter.restart()
    found = meter.read()
    meter.close()

    assert (found.quiet, found.readable, found.foreign_cpu) == (False, False, None)
    assert found.why.startswith("the load of the Docker engine's machine cannot be read: no such image")
    assert not noise.wait_for_quiet([], 60, pytest.fail), "waiting would change nothing"


@pytest.mark.parametrize("engine", [FAR, DESKTOP])
def test_a_load_from_this_machine_is_in_doubt_where_the_engine_is_elsewhere(at, monkeypatch, engine):
    """What the way there takes of each commit is not known. Beside the nodes clients do not go it."""
    at(engine)
    here, beside = SimpleNamespace(clients_are_beside=False), SimpleNamespace(clients_are_beside=True)
    found = noise.NoiseMeter([beside, here]).read()

    assert not found.readable and found.why == (
        f"{engine.elsewhere}, and clients run on this machine: the way there takes part of each commit's time"
    )
    assert not noise.wait_for_quiet([here], 60, pytest.fail), "waiting would change nothing"
