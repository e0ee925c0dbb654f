"""Root of the host stops processes and sets limits without a request to the engine; a witness sees both."""

import os
import re
import signal
from pathlib import Path

import pytest
from replication_lab.witnesses.confinement import UNCONFINED
from replication_lab.witnesses.sampled import LATE_SECONDS
from replication_lab.world import clock, processes, signals
from replication_lab.world.docker import control_groups

from tests.lab.witnessed import doubts_of, proof_while


@pytest.fixture(scope="module")
def single(new_lab):
    lab = new_lab("single")
    yield lab
    with signals.signals_held():
        lab.down()


def server_process(lab):
    """Return the number of the server's process on this machine, which has used most of the container's CPU time."""
    numbers = control_groups.processes(str(lab.node("server").container.id))
    found = {each.pid: work.cpu for each, work in processes.every().items() if each.pid in numbers}
    return max(found, key=found.get)


def stopped_for_a_moment(lab):
    """For longer than a second, and less than a client's patience."""
    number = server_process(lab)
    os.kill(number, signal.SIGSTOP)
    try:
        clock.pause(1.5)
    finally:
        os.kill(number, signal.SIGCONT)


def throttled_for_a_moment(lab):
    """Write the file of the container's control group, as `docker update` would, and write it back."""
    container = str(lab.node("server").container.id)
    path, less = next(
        (path, "50000 100000" if path.name == "cpu.max" else "50000")
        for each in control_groups.paths(container, [("cpu", "cpu.cfs_quota_us"), ("", "cpu.max")])
        if (path := Path(each)).exists()
    )
    before = path.read_text()
    path.write_text(less)
    try:
        clock.pause(1.5)
    finally:
        path.write_text(before)


@pytest.mark.parametrize(
    ("meddle", "told"),
    [
        (stopped_for_a_moment, "a signal stopped (mariadbd|mysqld) in server"),
        (throttled_for_a_moment, "cpu[.](cfs_quota_us|max) of server was 50000( 100000)?, after (-1|max 100000)"),
    ],
)
def test_a_server_that_root_of_the_host_holds_for_a_moment_is_unknown(drilled, meddle, told):
    """It goes on before the drill's next step."""
    doubts = doubts_of(drilled("single", "clock", meanwhile=meddle))

    assert re.search(f"{re.escape(UNCONFINED)}: at [0-9.]+ s {told}", doubts), doubts


def test_what_the_lab_itself_pauses_or_limits_is_no_doubt(single):
    """The engine writes the same files at its request."""
    node = single.node("server")

    def act():
        node.pause()
        clock.pause(2 * LATE_SECONDS)
        node.unpause()
        node.container.update(cpu_quota=50_000)
        clock.pause(2 * LATE_SECONDS)
        node.container.update(cpu_quota=-1)

    assert proof_while(single, UNCONFINED, act).ok
