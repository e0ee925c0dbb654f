"""Is a drill's ratio UNKNOWN while another program keeps a CPU busy, and judged on a quiet machine?"""

import os
import subprocess
from contextlib import closing

import pytest
from replication_lab.model.core.verdict import Verdict
from replication_lab.probes.noise import ALL_THE_TIME, NoiseMeter
from replication_lab.probes.used import Reader, UsedSince
from replication_lab.runner import drill_set
from replication_lab.runner.drill import DrillRequest
from replication_lab.world import processes
from replication_lab.world.clock import pause, wait_until

from tests.conftest import skip_if_busy
from tests.noise import other_programs, writing

RATIO = "throughput_ratio"


@pytest.fixture
def limited(drill_labs, tmp_path):
    """Return a function that limits the CPU of the only server, and returns the judgements by figure."""

    def do():
        what = drill_set.load("single", "cpu").with_duration(2)
        evidence = drill_labs("single").do(DrillRequest(what, 7), tmp_path / "ledger")
        return {one.figure: one for one in drill_set.judged_as_found(evidence, tmp_path / "ledger").judgements}

    return do


def test_a_ratio_is_unknown_while_another_program_computes(limited):
    """Rows that were counted are judged all the same. Tests beside this one only add to the noise."""
    with other_programs(1):
        found = limited()

    assert found[RATIO].verdict is Verdict.UNKNOWN
    assert "on a noisy machine: from" in found[RATIO].reason
    assert found[RATIO].measured is not None
    assert {name for name, one in found.items() if one.verdict is not Verdict.HOLDS} == {RATIO}


@pytest.mark.long
@pytest.mark.alone
def test_the_same_drill_is_judged_on_a_quiet_machine(limited, noise_beforehand):
    """The lab's own servers and clients are no noise, although they keep the CPUs busy."""
    skip_if_busy(False, lambda: noise_beforehand)
    found = limited()

    assert {name: one.reason for name, one in found.items() if one.verdict is not Verdict.HOLDS} == {}


def test_the_processes_that_publish_a_labs_ports_are_found_by_its_networks(drill_labs):
    """Their CPU time grows with the lab's connections. Those of other networks are not found."""
    lab = drill_labs("single").lab()
    before = of_ports(lab.all_containers.subnets)
    if not before:
        pytest.skip("this engine publishes ports without docker-proxy")
    wait_until(lambda: carried_by(lab) > sum(before), "connections to use CPU time")

    assert of_ports(["203.0.113.0/24"]) == []


def carried_by(lab):
    """Return the CPU seconds of the processes that publish the lab's ports, after some connections across them."""
    for _ in range(20):
        lab.node("server").server().value("SELECT REPEAT('x', 100000)")
    return sum(of_ports(lab.all_containers.subnets))


def of_ports(subnets):
    """Return the CPU seconds of each process that publishes a port of a container in these networks."""
    found = processes.every()
    return [found[each].cpu for each in processes.publishing(found, subnets)]


def test_what_a_server_used_before_it_was_killed_still_counts(drill_labs):
    """Docker counts each run of a container from zero; without the first one the lab's own work would be noise."""
    lab = drill_labs("single").lab()
    server, used = lab.node("server"), [lab.all_containers.cpu_seconds()["server"]]
    server.kill()
    used.append(lab.all_containers.cpu_seconds()["server"])
    server.start_again()
    wait_until(server.is_healthy, "the server to be back")
    used.append(lab.all_containers.cpu_seconds()["server"])

    assert 0.05 < used[0] <= used[1] < used[2]


# A container's CPU time is the lab's, and so would be what others run inside.
BURNS = ["sh", "-c", "timeout $0 sh -c 'while :; do :; done' || :"]


def test_what_others_run_inside_a_container_is_no_work_of_the_lab(drill_labs):
    """The same command is the lab's own if the lab runs it."""
    lab = drill_labs("single").lab()
    with closing(NoiseMeter([lab])) as meter:
        lab.node("server").run(*BURNS, "2")
        own = meter.read()
        theirs = ["docker", "exec", str(lab.node("server").container.id), *BURNS, "8"]
        with subprocess.Popen(theirs) as other:
            reader = Reader([lab])
            wait_until(lambda: reader.read().commands, "the command to use CPU time")
            meter.restart()
            pause(2)
            found = meter.read()
            other.wait()

    assert own.own_cpu > found.own_cpu + 0.1
    assert not found.quiet and "sh " in found.why


def test_a_program_that_writes_to_the_disk_is_seen_and_named(tmp_path):
    """Whatever else uses the disk at the same time."""
    reader = Reader([])
    with writing(tmp_path / "written") as writer:
        pid = writer.pid

        def share():
            before = reader.read()
            pause(1)
            found = UsedSince(before, reader.read())
            assert [each for each in found.now.processes if each.pid == pid and each not in found.now.lab]
            return found.disk

        if not os.access(f"/proc/{pid}/io", os.R_OK):
            pytest.skip("this user may not read what other processes wrote")
        wait_until(lambda: share() > ALL_THE_TIME.disk, "the program to keep the disk busy")
