"""Is another machine detected, and what it cannot do or tell refused, recorded or doubted, never passed over?

The facts of the platform are fakes here; docs/machines.md says what was run on real machines.
"""

import dataclasses
import os
from types import SimpleNamespace

import msgspec
import pytest
from replication_lab import experiments
from replication_lab.lab import doctor, memory, status, stock
from replication_lab.model.core.noise import ACCEPT, STOP, WAIT, Noise
from replication_lab.model.lab.storage import Storage
from replication_lab.model.record.measurement import Measurement
from replication_lab.model.record.record import Record
from replication_lab.report import summarise, wording
from replication_lab.runner import described
from replication_lab.world import catalogue, host
from replication_lab.world.disks import overlay
from replication_lab.world.docker import compose_version, images, machine, reach, servers
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import lab as labs
from replication_lab.world.docker.machine import facts_of
from replication_lab.world.host import HERE, MachineFiles
from replication_lab.world.machines import vm

from tests.fakes.docker_engine import Build, Image
from tests.fakes.lab import FakeLab
from tests.unit.synthetic import experiment, record

# `docker info` of a usual engine on a usual machine, and what is different elsewhere.
LINUX = {
    "OperatingSystem": "Debian GNU/Linux 12 (bookworm)",
    "NCPU": 2,
    "MemTotal": 8 << 30,
    "KernelVersion": "6.1.0-18-amd64",
    "SecurityOptions": ["name=seccomp,profile=builtin"],
}
DESKTOP = LINUX | {"OperatingSystem": "Docker Desktop", "NCPU": 4, "KernelVersion": "6.10.14-linuxkit"}
ROOTLESS = LINUX | {"SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless"]}


@pytest.fixture
def platform(monkeypatch):
    """Set what Python says of this machine."""

    def set_(system="Linux", release="6.1.0-18-amd64", processor="x86_64"):
        monkeypatch.setattr(host.platform, "system", lambda: system)
        monkeypatch.setattr(host.platform, "release", lambda: release)
        monkeypatch.setattr(host.platform, "machine", lambda: processor)
        monkeypatch.delenv("DOCKER_HOST", raising=False)

    set_()
    return set_


@pytest.fixture
def at(monkeypatch, platform):
    """Put the engine on a machine with these facts."""
    # What a container of the lab reads there.
    files = {
        "/proc/loadavg": "0.50 0.40 0.30 1/100 7\n",
        "/proc/pressure/cpu": "some avg10=20.00 avg60=0.00 avg300=0.00 total=1\n",
        "/proc/cpuinfo": "model name\t: Apple M4\n",
        "/proc/meminfo": "MemTotal: 8388608 kB\nMemAvailable: 153600 kB\n",
    }
    monkeypatch.setattr(reach, "files", lambda *_paths: MachineFiles(files))

    def put(info, processor="amd64"):
        found = facts_of(info, processor)
        monkeypatch.setattr(machine, "facts", lambda: found)
        monkeypatch.setattr(docker_engine, "processor", lambda: processor)
        return found

    return put


# --- detected ---------------------------------------------------------------------------------------------------------


def test_an_engine_on_this_machine_is_told_from_others(platform, monkeypatch):
    """By the engine's own name, by this machine's system and kernel, and by the address of the engine."""
    assert facts_of(LINUX | {"ID": "a-b"}, "amd64").engine_id == "a-b"
    assert facts_of(LINUX, "amd64").elsewhere == ""
    assert "Docker Desktop runs the engine in a virtual machine" in facts_of(DESKTOP, "amd64").elsewhere
    assert "the engine's kernel is 5.15" in facts_of(LINUX | {"KernelVersion": "5.15"}, "amd64").elsewhere
    monkeypatch.setenv("DOCKER_HOST", "ssh://db@far.example")
    assert facts_of(LINUX, "amd64").elsewhere == "DOCKER_HOST leads to ssh://db@far.example"
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/user/1000/docker.sock")
    assert facts_of(LINUX, "amd64").elsewhere == ""
    platform("Darwin", "23.4.0", "arm64")
    assert "on Darwin the engine runs in a virtual machine" in facts_of(LINUX, "arm64").elsewhere


def test_podman_is_refused_with_the_reason(engine, refused):
    """It answers as Docker does; the lab's images and labs are made by other parts of Docker."""
    found = engine()
    found.version = lambda: {"Version": "5.2.0", "Os": "linux", "Components": [{"Name": "Podman Engine"}]}
    error = refused(docker_engine.client)

    assert error.found == "the engine is Podman 5.2.0" and "BuildKit" in error.expected


def test_windows_containers_are_refused(engine, refused):
    """Every image is of Linux."""
    found = engine()
    found.version = lambda: {"Version": "27.0.0", "Os": "windows"}

    assert "containers of windows" in refused(docker_engine.client).found


# --- another processor ------------------------------------------------------------------------------------------------


def test_on_arm64_what_has_no_programs_for_it_is_refused_and_the_rest_is_not(at, refused):
    """Servers from archives are for x86-64 only; those of the distribution's packages and vendors' images are not."""
    at(LINUX, "arm64")
    single = catalogue.topology("single")
    by_refusal = {bool(servers.foreign(name)): name for name in catalogue.engines()}

    assert set(by_refusal) == {True, False}
    able = {name for name in catalogue.engines() if not servers.foreign(name)}
    assert able == {"mariadb", "mariadb-10.11-galera", "mysql", "percona"}
    error = refused(servers.make_ready, single, "mysql-5.5")
    assert error.found == "mysql-5.5 has programs for amd64 only, and the processor is arm64"
    assert not servers.foreign("mysql:8.4") and not servers.foreign("mariadb")


def test_the_list_of_engines_says_what_is_refused(at, engine):
    """In the column of the image; on x86-64 nothing is refused."""
    engine()
    at(LINUX, "arm64")
    shown = {each.name: each.image for each in status.engines()}
    assert shown["mysql-8.0"] == "refused: mysql-8.0 has programs for amd64 only, and the processor is arm64"
    assert not shown["mariadb"].startswith("refused")
    at(LINUX)

    assert not [each for each in status.engines() if each.image.startswith("refused")]


def test_virtual_machines_are_for_one_processor(at, refused):
    """Of the engine: a Mac with an Intel processor has it too."""
    at(LINUX, "arm64")

    assert "the processor is arm64" in refused(vm.launcher).found


def test_all_engines_are_those_that_this_processor_can_run(platform):
    """`lab images build all` on arm64 builds what builds there."""
    platform(processor="aarch64")

    assert set(stock.needed(["all"], [])) == {"mariadb", "mariadb-10.11-galera", "mysql", "toxiproxy", "load"}


# --- an engine in a virtual machine -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("choice", "counts"), [(WAIT, True), (ACCEPT, True), (STOP, False)])
def test_figures_are_kept_in_doubt_and_measured_once(ran, brief, choice, counts):
    """Measuring again would not make the load known; --noise stop ends the run."""
    shortest = dataclasses.replace(experiments.load("semisync_wan"), presets={"quick": brief})
    _, run, world = ran(shortest, noise=choice, unreadable=True)
    measured = [(each.case, each.round) for each in run.measurements]

    assert {each.noise.accepted for each in run.measurements} == {counts} and world.waited == []
    assert len(measured) == len(set(measured)) and (len(measured) == 1) is not counts


def test_verdicts_from_such_a_machine_are_unknown():
    """Each figure counts and is doubted, so that no claim holds or is refuted."""
    unknown = Noise(
        quiet=False, readable=False, accepted=True, why="the load of the Docker engine's machine cannot be read"
    )
    ran = Record(
        [
            msgspec.structs.replace(each, noise=unknown) if isinstance(each, Measurement) else each
            for each in record(4).events
        ]
    )
    found = summarise(experiment(), ran)

    assert found.exit_code == 3 and {claim.verdict for claim in found.claims} == {"UNKNOWN"}
    assert all("the load of the Docker engine's machine cannot be read" in claim.reason for claim in found.claims)
    assert [line for line in wording.warnings(found) if line.endswith("they count, and are in doubt")]


def test_the_record_describes_the_engine_s_machine(at, engine, monkeypatch):
    """Figures depend on its processor, CPUs, memory and kernel; its load is read there, and clients run there."""
    engine()
    monkeypatch.setattr(compose_version, "version", lambda: "2.26.1")
    at(DESKTOP, "arm64")
    found = described.environment()

    assert (found["machine"], found["cpus"], found["memory_mib"]) == ("arm64", 4, 8192)
    assert found["kernel"] == "6.10.14-linuxkit" and "Docker Desktop" in found["elsewhere"]
    assert (found["cpu"], found["cpu_pressure"], found["load1"]) == ("Apple M4", 0.2, 0.5)
    assert found["clients_from"] == "container"
    at(LINUX)
    assert not {"elsewhere", "clients_from"} & described.environment().keys()


def test_memory_is_that_of_the_engine_s_machine(at, monkeypatch, refused):
    """Free memory of this machine is no limit, and none that the lab could rely on."""
    at(DESKTOP)

    assert "150 MiB of memory are available" in refused(memory.check, [(catalogue.topology("semisync"), "", {})]).found


def test_free_space_is_not_checked_where_it_is_not_known_and_that_is_said(at, engine, monkeypatch, capsys):
    """The disk of this machine is another one."""
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: pytest.fail("this machine's disk was read"))
    monkeypatch.setattr(images.subprocess, "Popen", lambda *_, **__: Build())
    engine(known={"replication-lab/base": Image()})
    at(DESKTOP)
    images.ensure(["mariadb"])

    assert "the free space for images is not checked: Docker Desktop" in capsys.readouterr().err


def test_the_harness_s_memory_is_in_mib_on_macos_too(platform, monkeypatch):
    """macOS counts it in bytes, Linux in KiB."""
    monkeypatch.setattr(host, "getrusage", lambda _: SimpleNamespace(ru_maxrss=100 << 20))
    platform("Darwin")
    assert host.own_memory_mib() == 100
    platform("Linux")
    assert host.own_memory_mib() == 100 << 10


# --- CPUs of their own ------------------------------------------------------------------------------------------------


class Pinned:
    """A lab whose containers note the CPUs that they get."""

    # It is on the command's own engine.
    _endpoint_of_source = ""

    def __init__(self):
        self.given, self.pinned, self.not_done = {}, {}, []

    def service(self, name):
        return SimpleNamespace(
            container=SimpleNamespace(update=lambda cpuset_cpus: self.given.update({name: cpuset_cpus}))
        )

    pin_cpus = labs.Lab.pin_cpus


def test_sites_get_the_cpus_of_the_engine_s_machine(at):
    """Those of the virtual machine, however many this machine has."""
    at(DESKTOP)
    lab = Pinned()
    lab.pin_cpus(("source",), ("replica",))

    assert lab.given == lab.pinned == {"source": "0,1", "replica": "2,3"} and not lab.not_done


@pytest.mark.parametrize(
    ("info", "why"),
    [(DESKTOP | {"NCPU": 1}, "1 CPU for 2 sites"), (ROOTLESS, "the engine is rootless")],
)
def test_sites_without_cpus_of_their_own_are_a_doubt(at, monkeypatch, info, why):
    """An experiment that wanted them cannot be green without them."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    at(info)
    lab = Pinned()

    assert lab.pin_cpus(("source",), ("replica",)) == lab.given == {}
    assert lab.not_done == [f"the sites share the same CPUs: {why}"]


def test_what_could_not_be_done_makes_every_verdict_unknown(ran, brief, monkeypatch):
    """The run has a doubt with the reason, whatever was measured."""
    monkeypatch.setattr(FakeLab, "not_done", ["the sites have no CPUs of their own: 1 CPU for 2 sites"])
    found, _, _ = ran(dataclasses.replace(experiments.load("semisync_wan"), presets={"quick": brief}))

    assert found.exit_code == 3 and {claim.verdict for claim in found.claims} == {"UNKNOWN"}
    assert found.doubts == ["the sites have no CPUs of their own: 1 CPU for 2 sites"]


# --- rootless ---------------------------------------------------------------------------------------------------------


def test_a_rootless_engine_has_no_emulated_disks_and_no_virtual_machines(at, refused):
    """Both need devices and mounts of the host; everything else is tried."""
    at(ROOTLESS)

    assert (
        "rootless, and emulated disks need" in refused(overlay.with_backend, {"replica": Storage(level="raid0")}).found
    )
    assert "rootless, and virtual machines need" in refused(vm.launcher).found
    assert overlay.with_backend({}) == {}


# --- lab doctor -------------------------------------------------------------------------------------------------------


@pytest.fixture
def examined(at, engine, monkeypatch):
    """Examine a machine with these facts; return the findings by name."""
    engine()
    monkeypatch.setattr(compose_version, "version", lambda: "2.26.1")
    monkeypatch.setattr(doctor.project, "all_labs", dict)
    monkeypatch.setattr(doctor.leftovers, "left_behind", list)
    pressure = host.cpu_pressure
    monkeypatch.setattr(host, "cpu_pressure", lambda files=HERE: 0.0 if files is HERE else pressure(files))

    def examine(info, processor="amd64"):
        at(info, processor)
        return {finding.what: finding for finding in doctor.examine()}

    return examine


def test_doctor_shows_where_the_engine_runs_and_what_is_not_known(examined):
    """One line for the machine, one for each thing that cannot be read, and which images are refused."""
    found = examined(DESKTOP, "arm64")

    assert "Docker Desktop" in found["engine's machine"].found and "4 CPUs" in found["engine's machine"].found
    assert found["quiet"].found.startswith("not read: the image toxiproxy is not built yet; Docker Desktop")
    assert found["disk"].found.startswith("free space is not read: the image clients is not built yet")
    assert found["image mysql-8.0"].found.startswith("refused: mysql-8.0 has programs for amd64 only")
    assert "the processor is arm64" in found["virtual machines"].found


def test_doctor_reads_the_load_and_the_disk_of_the_engine_s_machine(examined, monkeypatch):
    """By containers of the lab there, once their images are built."""
    monkeypatch.setattr(images, "is_current", lambda _name: True)
    monkeypatch.setattr(machine.engine.client(), "known", {machine.READER: Image()})
    answers = iter([f"{7 * 10**9}\n", ""])
    monkeypatch.setattr(machine, "_read_there", lambda _site: next(answers))
    found, unread = examined(DESKTOP), examined(DESKTOP)

    assert found["quiet"].found == "load 0.50, tasks waited for a CPU in 20% of the last 10 s"
    assert found["disk"].found == "7 GB free for images"
    assert unread["disk"].found.startswith("free space is not read")


def test_doctor_says_what_a_rootless_engine_cannot_do(examined):
    """In the line of its machine."""
    assert "the engine is rootless: no emulated disks" in examined(ROOTLESS)["engine's machine"].found


def test_on_a_usual_machine_doctor_has_nothing_to_add(examined):
    """The engine runs here, its load is read."""
    found = examined(LINUX)

    assert found["engine's machine"].found.startswith("this machine: amd64, 2 CPUs")
    assert found["quiet"].found.startswith("load ")


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("26.1.5+dfsg1", "Docker 26.1.5+dfsg1 lets machines of the same network segment reach"),
        ("27.5.1", "Docker 27.5.1 lets machines of the same network segment reach"),
        ("28.0.0-rc.1", "only the engine's machine"),
        ("28.0.0", "only the engine's machine"),
        ("28.2.2", "after a reload of firewalld"),
        ("28.3.3", "only the engine's machine"),
        ("29.0", "only the engine's machine"),
        ("v29.1.2", "only the engine's machine"),
        ("dev", "unknown for an engine of version dev"),
        ("", "unknown for an engine of version unknown"),
    ],
)
def test_doctor_says_from_which_version_ports_are_published_on_loopback_only(examined, version, said):
    """A remark: the examination does not fail for it, and the next step is an upgrade or a rule."""
    finding = examined(LINUX | {"ServerVersion": version})["published ports"]

    assert finding.found.startswith(said) and finding.ok
    assert ("DOCKER-USER" in finding.next_step) is ("only" not in said)


@pytest.mark.parametrize("info", [DESKTOP, ROOTLESS])
def test_an_engine_with_a_network_of_its_own_has_no_neighbours(examined, info):
    """Docker Desktop's, in its virtual machine, and a rootless one, whatever their version."""
    found = examined(info | {"ServerVersion": "26.1.5"})["published ports"]

    assert found.found == "only the engine's machine reaches them" and found.next_step == ""


def test_on_a_mac_only_another_host_s_engine_has_neighbours(at, platform, monkeypatch):
    """An engine of the Mac itself runs in a virtual machine; one by SSH does not."""
    platform("Darwin", "23.4.0", "arm64")
    old = at(LINUX | {"ServerVersion": "26.1.5"}, "arm64")
    assert machine.reached_by_neighbours(old) == ""
    monkeypatch.setenv("DOCKER_HOST", "ssh://db@far.example")

    assert "Docker 26.1.5" in machine.reached_by_neighbours(old)
