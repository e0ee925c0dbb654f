"""Are this machine's processes, disks and control groups read as the kernel writes them?"""

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from replication_lab.probes import used
from replication_lab.world import host, processes, requests_made
from replication_lab.world.docker import containers, control_groups, machine
from replication_lab.world.processes import Process, Work

CHILD = """
import os, sys, time
while time.process_time() < 0.2: pass
with open(sys.argv[1], "wb") as file:
    file.write(bytes(1 << 20))
    os.fsync(file.fileno())
print(flush=True)
input()
"""


def test_a_process_of_this_machine_is_seen_with_its_work(tmp_path):
    """A child that computes and writes, and that is one of this process's descendants."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "written")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        found = processes.every()
        child.communicate(b"\n")
    (process,) = [each for each in found if each.pid == child.pid]

    assert found[process].cpu >= 0.15 and found[process].parent == os.getpid()
    assert process in processes.descendants(found, [os.getpid()])
    assert found[process].name.startswith("python")


def test_a_name_with_brackets_is_read_whole(tmp_path, monkeypatch):
    """As the kernel writes it: (name) between the number and the state."""
    (tmp_path / "7").mkdir()
    fields = "S 3 7 7 0 -1 0 0 0 0 0 150 50 100 200 20 0 1 0 4711 0"
    (tmp_path / "7" / "stat").write_text(f"7 (a (b) c) {fields}")
    (tmp_path / "7" / "io").write_text("rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n")
    monkeypatch.setattr(processes, "PROC", tmp_path)
    monkeypatch.setattr(processes.os, "sysconf", lambda _name: 100)

    assert processes.every() == {Process(7, 4711): Work("a (b) c", 3, 2.0, 3.0, 12288)}


def test_the_kernels_threads_are_read_every_second_time_while_they_are_there(tmp_path, monkeypatch):
    """One of two has ended at the second reading; a process of a user is read each time."""
    for pid, parent in ((7, processes.KERNEL), (8, processes.KERNEL), (9, 1)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (x) S {parent} 7 7 0 -1 0 0 0 0 0 1 1 1 1 20 0 1 0 4711 0")
    monkeypatch.setattr(processes, "PROC", tmp_path)

    first = processes.every()
    known = processes.of_the_kernel(first)
    for pid in (7, 9):
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (x) S 2 7 7 0 -1 0 0 0 0 0 900 1 1 1 20 0 1 0 4711 0")
    shutil.rmtree(tmp_path / "8")
    then = processes.every(known=known)

    assert {each.pid for each in known} == {7, 8}
    assert {each.pid for each in then} == {7, 9}
    assert then[Process(7, 4711)] == first[Process(7, 4711)]
    assert then[Process(9, 4711)].cpu > first[Process(9, 4711)].cpu


def test_a_process_whose_disk_work_is_not_readable_has_none(tmp_path, monkeypatch):
    """A user sees that of their own processes only; root sees all."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (x) S 3 7 7 0 -1 0 0 0 0 0 1 1 1 1 20 0 1 0 4711 0")
    monkeypatch.setattr(processes, "PROC", tmp_path)

    assert [work.disk_bytes for work in processes.every().values()] == [0]


def test_a_proxy_belongs_to_the_network_of_the_address_that_it_publishes(tmp_path, monkeypatch):
    """Those of other labs are other programs."""
    monkeypatch.setattr(processes, "PROC", tmp_path)
    found = {}
    for pid, address in ((7, "172.20.0.3"), (8, "172.21.0.3")):
        (tmp_path / str(pid)).mkdir()
        words = ("/usr/bin/docker-proxy", "-proto", "tcp", "-container-ip", address, "-container-port", "3306")
        (tmp_path / str(pid) / "cmdline").write_text("\0".join(words))
        found[Process(pid, 1)] = Work("docker-proxy", 1, 0.0, 0.0, 0)

    assert processes.publishing(found, ["172.20.0.0/16"]) == {Process(7, 1)}
    assert processes.publishing(found, []) == set()


def test_this_machine_tells_the_seconds_of_each_cpu():
    """The CPUs that this process may use are among them; no CPU was busy for longer than it exists."""
    found = host.seconds_by_cpu()

    assert os.sched_getaffinity(0) <= found.keys()
    assert all(0 <= busy <= total for busy, total in found.values())


def test_only_whole_disks_are_disks():
    """A partition has a share of its disk's work, and a loop device moves to a disk what it is given."""
    assert not [name for name in host.disk_work() if name.startswith(("loop", "zram"))]
    assert all(work.busy >= 0 and work.moved >= 0 for work in host.disk_work().values())


# --- control groups ---------------------------------------------------------------------------------------------------

ID = "5f" * 32


def written(root, files):
    for name, text in files.items():
        path = root / name.format(ID)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    "files",
    [
        {
            "cpuacct/docker/{}/cpuacct.usage": "2500000000\n",
            "cpuacct/docker/{}/cgroup.procs": "7\n9\n",
            "memory/docker/{}/memory.failcnt": "3\n",
        },
        {
            "system.slice/docker-{}.scope/cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
            "system.slice/docker-{}.scope/cgroup.procs": "7\n9\n",
            "system.slice/docker-{}.scope/memory.events": "low 0\nhigh 0\nmax 3\noom 0\n",
        },
        {
            "docker/{}/cpu.stat": "usage_usec 2500000\n",
            "docker/{}/cgroup.procs": "7\n9\n",
            "docker/{}/memory.events": "max 3\n",
        },
    ],
    ids=["version 1", "version 2, systemd", "version 2, cgroupfs"],
)
def test_a_container_is_read_from_its_control_groups(files, tmp_path, monkeypatch):
    """Of both versions, wherever Docker puts them."""
    written(tmp_path, files)
    monkeypatch.setattr(control_groups, "ROOT", tmp_path)

    assert control_groups.cpu_seconds(ID) == 2.5
    assert control_groups.processes(ID) == {7, 9}
    assert control_groups.memory_limit_hits(ID) == 3


def test_a_container_that_has_ended_has_no_control_groups(tmp_path, monkeypatch):
    """The engine is asked for it then, as for one whose groups are elsewhere."""
    monkeypatch.setattr(control_groups, "ROOT", tmp_path)

    assert control_groups.cpu_seconds(ID) is None
    assert (control_groups.processes(ID), control_groups.memory_limit_hits(ID)) == (frozenset(), 0)


# --- commands of others -----------------------------------------------------------------------------------------------


class Containers:
    """A lab's only container."""

    every = {"source": SimpleNamespace(id=ID)}
    subnets = ()

    def cpu_seconds_of(self, _containers, _files):
        return {"source": 9.0}


@pytest.mark.parametrize(("cpu", "by_others", "found"), [(5.0, {30}, {30}), (5.0, set(), set()), (0.01, {30}, set())])
def test_a_command_of_others_is_told_from_the_server_and_from_commands_of_the_lab(cpu, by_others, found, monkeypatch):
    """The server is a container's oldest process; what used hardly any CPU is not asked for."""
    running = {
        Process(10, 1): Work("mariadbd", 5, 100.0, 0.0, 0),
        Process(11, 9): Work("sh", 10, 3.0, 0.0, 0),
        Process(30, 9): Work("sh", 5, cpu, 0.0, 0),
        Process(31, 9): Work("sha256sum", 30, cpu, 0.0, 0),
    }
    monkeypatch.setattr(machine, "facts", lambda: SimpleNamespace(elsewhere=""))
    monkeypatch.setattr(processes, "every", lambda _files, _known: running)
    monkeypatch.setattr(control_groups, "processes", lambda _id, _files: {10, 11, 30, 31})
    monkeypatch.setattr(used, "commands_of_others", lambda _id: by_others)
    read = used.Reader([SimpleNamespace(all_containers=Containers(), pinned={})]).read()

    assert {each.pid for each in read.commands} == found
    assert {each.pid for each in read.lab} == {10, 11, 30, 31} - ({30, 31} if found else set())
    assert [each.seconds for each in read.commands.values()] == [2 * cpu] * len(found)


def test_a_command_of_this_process_is_known_by_the_number_that_the_engine_gave_it(monkeypatch):
    """Of two that run in the container."""
    numbers = {"own": 20, "another": 30}
    api = SimpleNamespace(
        inspect_container=lambda _id: {"ExecIDs": list(numbers)}, exec_inspect=lambda each: {"Pid": numbers[each]}
    )
    container = SimpleNamespace(id=ID, client=SimpleNamespace(api=api))
    monkeypatch.setattr(requests_made, "commands", lambda: {"own"})

    assert containers.commands_of_others(container) == {30}
