"""Is work of others than lab and harness noise, also if it lasts for a second or is done inside a lab's container?"""

from collections.abc import Iterator, Mapping
from types import SimpleNamespace

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.probes import noise
from replication_lab.probes.noise import NoiseMeter
from replication_lab.probes.used import Command, Used
from replication_lab.world import clock
from replication_lab.world.docker import machine
from replication_lab.world.host import CpuTime, DiskTotals
from replication_lab.world.processes import Process, Work

from tests.fakes.clock import FakeClock

HERE = SimpleNamespace(elsewhere="", system="Linux")
SOURCE, MIB = (0, "source"), 1 << 20


def used(at: float = 0.0, cpu: Mapping[str, float] | None = None, **others) -> Used:
    """Return the counters at a moment of a machine of two CPUs; `cpu` are its seconds."""
    return Used(at, CpuTime(**{"busy": 0.0, "stolen": 0.0, "total": 2 * at, "own": 0.0, **(cpu or {})}), **others)


def work(name: str, cpu: float = 0.0, disk_bytes: int = 0, parent: int = 1) -> Work:
    return Work(name, parent, cpu, 0.0, disk_bytes)


class Readings:
    """A reader that returns the given counters, one after another, the last of them for ever."""

    def __init__(self, *readings: Used) -> None:
        self.readings: Iterator[Used] = iter(readings)
        self.last = used()

    def read(self) -> Used:
        self.last = next(self.readings, self.last)
        return self.last


@pytest.fixture
def noise_of(monkeypatch):
    """Return a function that returns the noise of a load with these counters at its beginning, all through, its end."""
    monkeypatch.setattr(machine, "facts", lambda: HERE)
    monkeypatch.setattr(noise, "LONGEST_GAP", 100.0)
    # Nothing is read at a time of the thread's own.
    monkeypatch.setattr(noise.threading.Thread, "start", lambda _self: None)
    monkeypatch.setattr(noise.threading.Thread, "join", lambda _self: None)

    def found(*readings: Used):
        monkeypatch.setattr(noise, "Reader", lambda *_labs: Readings(*readings))
        meter = NoiseMeter([])
        for _ in readings[2:]:
            meter._take()
        return meter.read()

    return found


def seconds(*used_in_each: float) -> list[Used]:
    """Return readings twice a second of others that use these shares of both CPUs in half a second each."""
    busy = [sum(used_in_each[:number]) for number in range(len(used_in_each) + 1)]
    return [used(at / 2, {"busy": each}) for at, each in enumerate(busy)]


@pytest.mark.parametrize(
    ("cpu", "containers", "why"),
    [
        ({"busy": 24}, 0, ""),
        ({"busy": 26}, 0, "other programs used 26% of the CPUs (limit 25%)"),
        ({"busy": 90, "own": 10}, 60, ""),
        ({"busy": 90, "own": 10}, 40, "other programs used 40% of the CPUs (limit 25%)"),
        ({"stolen": 4}, 0, ""),
        ({"stolen": 6}, 0, "6% of the CPU time was stolen by other virtual machines (limit 5%)"),
        ({"busy": 5}, 20, ""),
    ],
)
def test_noise_is_what_neither_lab_nor_harness_used(cpu, containers, why, noise_of):
    """The limits are a quarter of foreign CPU and a twentieth stolen; the lab's own work never counts as noise."""
    found = noise_of(used(), used(50, cpu, containers={SOURCE: containers}))

    assert (found.quiet, found.why) == (not why, why)
    assert found.foreign_cpu >= 0


def test_the_share_of_the_lab_and_the_harness_is_recorded(noise_of):
    """Of 100 CPU seconds the containers used 40, the clients in the harness 10, and a child that still runs 5."""
    found = noise_of(used(), used(50, {"busy": 75, "own": 10}, containers={SOURCE: 40.0}, children=5.0))

    assert (found.own_cpu, found.foreign_cpu) == (0.55, 0.2)


def test_a_child_of_the_harness_that_ended_is_counted_once(noise_of):
    """The harness has waited for it: its 30 s are then those of the harness, and no longer a child's."""
    found = noise_of(used(children=20.0), used(50, {"busy": 10, "own": 30}))

    assert (found.own_cpu, found.foreign_cpu) == (0.1, 0.0)


@pytest.mark.parametrize(
    ("busy", "own", "why"),
    [
        (40, 0, ""),
        (44, 0, "other programs used 28% of CPU 0, to which nodes are pinned (limit 25%)"),
        # The clients may be in the harness itself, on any CPU.
        (44, 10, ""),
    ],
)
def test_the_cpus_that_nodes_are_pinned_to_have_the_limit_of_all(busy, own, why, noise_of):
    """Of two CPUs of 50 s each a source has one and used 30 s of it; others used less than a quarter of both."""
    pinned, idle = {SOURCE: "0"}, {0: (0.0, 0.0), 1: (0.0, 0.0)}
    found = noise_of(
        used(pinned=pinned, cpus=idle),
        used(
            50,
            {"busy": busy + 2, "own": own},
            pinned=pinned,
            containers={SOURCE: 30.0},
            cpus={0: (float(busy), 50.0), 1: (2.0, 50.0)},
        ),
    )

    assert (found.quiet, found.why) == (not why, why)


def test_the_processes_that_publish_a_labs_ports_are_no_other_program(noise_of):
    """They used 30 of 40 CPU seconds. One that was started meanwhile counts from zero."""
    old, ended, new = (Process(number, 0) for number in range(3))
    found = noise_of(used(ports={old: 500.0, ended: 7.0}), used(50, {"busy": 40}, ports={old: 520.0, new: 10.0}))

    assert found.quiet and (found.own_cpu, found.foreign_cpu) == (0.3, 0.1)


def test_a_container_that_ended_by_itself_hides_no_other_program(noise_of):
    """What it used is not known then, and it is never deducted from what others used."""
    replica = (0, "replica")
    found = noise_of(
        used(containers={SOURCE: 500.0, replica: 3.0}),
        used(50, {"busy": 60}, containers={SOURCE: 5.0, replica: 13.0}),
    )

    assert (found.own_cpu, found.foreign_cpu) == (0.1, 0.5)


# --- the worst second -------------------------------------------------------------------------------------------------


def test_a_burst_of_a_second_is_noise(noise_of):
    """One of two CPUs, for a second of ten: a twentieth of the load, so the share of the whole load is far too low."""
    found = noise_of(*seconds(*[0.02] * 7, 0.52, 0.52, *[0.02] * 11))

    assert found.foreign_cpu == 0.07
    assert found.why == "other programs used 52% of the CPUs for a second, 3.5 s after the beginning (limit 35%)"
    assert (found.quiet, found.foreign_cpu_of_a_second) == (False, 0.52)


@pytest.mark.parametrize(
    "used_in_each",
    [[0.2] * 20, [*[0.02] * 7, 0.6, *[0.02] * 12], [0.3, 0.3, *[0.05] * 18]],
    ids=["a little all the time", "for half a second", "less than the limit"],
)
def test_less_than_a_burst_is_quiet(used_in_each, noise_of):
    """The engine itself does so much when it starts a command."""
    assert noise_of(*seconds(*used_in_each)).why == ""


def test_a_burst_before_the_load_is_not_of_it(noise_of, monkeypatch):
    """The meter is started with a measurement, and started again with its load."""
    monkeypatch.setattr(noise, "Reader", lambda *_labs: Readings(*seconds(1, 1, 1, 1, 0, 0, 0, 0)))
    meter = NoiseMeter([])
    for _ in range(3):
        meter._take()
    meter.restart()
    for _ in range(3):
        meter._take()

    assert meter.read().why == ""


def test_stolen_time_is_noise_in_one_second_too(noise_of):
    """Three tenths of both CPUs for a second of ten: 3 % of the load."""
    stolen = [0.0] * 7 + [0.3, 0.6] + [0.6] * 12
    found = noise_of(*(used(at / 2, {"stolen": each}) for at, each in enumerate(stolen)))

    assert found.why.startswith("30% of the CPU time was stolen by other virtual machines for a second, 3.0 s after")


def test_a_time_in_which_the_machine_was_not_read_is_not_quiet(noise_of, monkeypatch):
    """What nobody saw may have been anything: the engine did not answer, or the readings came too late."""

    class Broken(Readings):
        def read(self):
            found = super().read()
            if 0 < found.at < 4:
                raise LabError("the Docker engine does not answer")
            return found

    monkeypatch.setattr(noise, "LONGEST_GAP", 3.0)
    monkeypatch.setattr(noise, "Reader", lambda *_labs: Broken(*map(used, range(6))))
    meter = NoiseMeter([])
    for _ in range(4):
        meter._take()

    assert meter.read().why == "the load of the machine was not read for 4.0 s"


# --- inside the lab's containers --------------------------------------------------------------------------------------


def test_what_others_run_inside_a_container_is_not_the_labs(noise_of):
    """The container used 60 s, of which a command of somebody else used 45."""
    shell, burns = Process(7, 100), Process(8, 200)
    before = {shell: work("mariadbd", 10.0)}
    after = {shell: work("mariadbd", 25.0), burns: work("sha256sum", 45.0)}
    found = noise_of(
        used(containers={SOURCE: 10.0}, processes=before, lab=frozenset([shell])),
        used(
            50,
            {"busy": 62},
            containers={SOURCE: 70.0},
            processes=after,
            lab=frozenset([shell]),
            commands={burns: Command(SOURCE, 45.0)},
        ),
    )

    assert (found.own_cpu, found.foreign_cpu) == (0.15, 0.47)
    assert found.why == "other programs used 47% of the CPUs (limit 25%): sha256sum 90% of a CPU"


def test_a_command_that_ran_before_counts_from_the_beginning_of_the_load(noise_of):
    """What it used earlier is of no measurement; here it does nothing any more."""
    burns = Process(8, 200)
    found = noise_of(
        used(containers={SOURCE: 100.0}, commands={burns: Command(SOURCE, 80.0)}),
        used(50, {"busy": 40}, containers={SOURCE: 140.0}, commands={burns: Command(SOURCE, 80.0)}),
    )

    assert (found.own_cpu, found.foreign_cpu, found.quiet) == (0.4, 0.0, True)


# --- disks and memory -------------------------------------------------------------------------------------------------


def disk_load(busy: float, moved: int, theirs: int, own: int = 0) -> list[Used]:
    """Return readings of 10 s in which a disk was busy, and others and the lab moved so many bytes."""
    dd, server = Process(9, 1), Process(3, 1)
    lab = frozenset([server])
    before = {dd: work("dd", disk_bytes=5 * MIB), server: work("mariadbd")}
    after = {dd: work("dd", disk_bytes=5 * MIB + theirs), server: work("mariadbd", disk_bytes=own)}
    return [
        used(processes=before, lab=lab, disks={"vda": DiskTotals(100.0, 10)}),
        used(10, processes=after, lab=lab, disks={"vda": DiskTotals(100.0 + busy, 10 + moved)}),
    ]


@pytest.mark.parametrize(
    ("busy", "moved", "theirs", "own", "why"),
    [
        # The lab keeps the disk busy, and others write little.
        (9.0, 1000 * MIB, 20 * MIB, 900 * MIB, ""),
        # Others write much, and the disk is hardly busy by it.
        (1.0, 1000 * MIB, 1000 * MIB, 0, ""),
        (9.0, 1000 * MIB, 600 * MIB, 300 * MIB, "other programs used 54% of a disk's time (limit 25%): dd 60 MiB/s"),
        # The kernel writes a part of it later.
        (3.0, 100 * MIB, 600 * MIB, 0, "other programs used 30% of a disk's time (limit 25%): dd 60 MiB/s"),
    ],
)
def test_others_that_keep_a_disk_busy_are_noise(busy, moved, theirs, own, why, noise_of):
    """A disk's busy time is shared by the bytes that each moved."""
    found = noise_of(*disk_load(busy, moved, theirs, own))

    assert (found.quiet, found.why) == (not why, why)


def test_a_process_that_waited_for_a_child_has_not_moved_the_childs_bytes_again(noise_of):
    """The child's bytes were counted while it ran, before this load; the kernel then adds them to its parent's."""
    make, cc = Process(4, 1), Process(5, 2)
    found = noise_of(
        used(
            processes={make: work("make"), cc: work("cc", disk_bytes=900 * MIB, parent=4)},
            disks={"vda": DiskTotals(0, 0)},
        ),
        used(10, processes={make: work("make", disk_bytes=901 * MIB)}, disks={"vda": DiskTotals(9.0, 100 * MIB)}),
    )

    assert found.foreign_disk == 0.009


def test_a_burst_on_a_disk_is_noise(noise_of):
    """A second of ten: 10 % of the load."""
    dd = Process(9, 1)
    moved = [0] * 7 + [50 * MIB, 100 * MIB] + [100 * MIB] * 12
    found = noise_of(
        *(
            used(
                at / 2, processes={dd: work("dd", disk_bytes=each)}, disks={"vda": DiskTotals(each / (100 * MIB), each)}
            )
            for at, each in enumerate(moved)
        )
    )

    assert found.why == (
        "other programs used 100% of a disk's time for a second, 3.0 s after the beginning (limit 50%): dd 100 MiB/s"
    )


@pytest.mark.parametrize(
    ("stalled", "hits", "why"),
    [
        (0.4, 0, ""),
        (0.6, 0, "tasks waited for memory in 6% of the time (limit 5%)"),
        # A container reached a limit of its own: the lab gave it one, and waits because of it.
        (9.0, 1, ""),
        (None, 0, ""),
    ],
)
def test_tasks_that_wait_for_memory_are_noise_unless_a_limit_of_the_lab_may_be_the_reason(stalled, hits, why, noise_of):
    """Of 10 s; a kernel without PSI does not tell."""
    before = used(memory_stalled=None if stalled is None else 0.0)
    found = noise_of(before, used(10, memory_stalled=stalled, memory_limit_hits=hits))

    assert (found.quiet, found.why) == (not why, why)


# --- by whom ----------------------------------------------------------------------------------------------------------


def test_noise_names_who_made_it(noise_of):
    """So that the user knows what to stop: those that used most since then, and not since they started."""
    old, backup, lab = Process(1, 0), Process(2, 0), Process(3, 0)
    before = {old: work("old", 500.0), backup: work("backup"), lab: work("mariadbd")}
    after = {old: work("old", 500.01), backup: work("backup", 1.5), lab: work("mariadbd", 9.0)}
    found = noise_of(
        used(processes=before, lab=frozenset([lab])),
        used(2, {"busy": 1.6}, processes=after, lab=frozenset([lab])),
    )

    assert found.why == "other programs used 40% of the CPUs (limit 25%): backup 75% of a CPU"


@pytest.mark.parametrize(("becomes_quiet", "expected"), [(True, True), (False, False)])
def test_waiting_for_quiet_ends_when_it_is_or_when_the_time_is_over(becomes_quiet, expected, monkeypatch):
    """Three quiet windows one after another are quiet; a machine that stays busy is given up, and both are said."""
    fake, told = FakeClock(), []
    monkeypatch.setattr(machine, "facts", lambda: HERE)
    monkeypatch.setattr(clock, "timer", fake.timer)
    monkeypatch.setattr(clock, "pause", fake.pause)
    monkeypatch.setattr(clock, "wait_until", fake.wait_until)

    class Busy:
        def read(self):
            busy = min(fake.timer(), 5.0) if becomes_quiet else fake.timer()
            return used(fake.timer(), {"busy": busy}, processes={Process(1, 0): work("backup", busy)})

    monkeypatch.setattr(noise, "Reader", lambda *_labs: Busy())

    assert noise.wait_for_quiet([], 60, told.append) is expected
    assert len(told) == 1 and "backup" in told[0]
    assert fake.timer() < 15 if expected else fake.timer() >= 60
