"""Ctrl-C, SIGTERM, SIGHUP and SIGKILL at any moment: nothing is left, or the next command finds and removes it."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys

import pytest
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.record.record import Record
from replication_lab.world import catalogue, owners
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import engine, labels, leftovers, project

from tests.lab.conftest import read_until, things_of


def its_containers(name):
    client = engine.client()
    return client.containers.list(all=True, filters={"label": [f"{labels.PROJECT}={name}"]}, ignore_removed=True)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
def test_up_that_is_stopped_leaves_nothing(start_command, name, number):
    """Stopped while its containers come up."""
    process = start_command("up", "semisync", "--lab", name)
    wait_until(lambda: its_containers(name), "the first container")

    process.send_signal(number)

    assert process.wait(30) == 128 + number
    assert [] == things_of(name)


def test_up_whose_terminal_is_closed_leaves_nothing(name):
    """A window that is closed, or a connection that breaks: SIGHUP comes, and nothing can be printed any more."""
    ours, theirs = pty.openpty()
    terminal = ["setsid", "--ctty", "--wait", sys.executable, "-m", "replication_lab"]
    process = subprocess.Popen([*terminal, "up", "semisync", "--lab", name], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    wait_until(lambda: its_containers(name), "the first container")

    os.close(ours)

    # The status of SIGHUP; that of SIGPIPE, if it was about to print something.
    assert process.wait(30) in (129, 141)
    assert [] == things_of(name)


# Any command of another test would sweep what is left here on purpose, and these sweep.
@pytest.mark.long
@pytest.mark.alone
def test_up_that_is_killed_is_removed_by_the_next_command(start_command, command, name):
    """SIGKILL leaves containers behind; any later command that starts something finds them by their dead owner."""
    process = start_command("up", "semisync", "--lab", name)
    wait_until(lambda: its_containers(name), "the first container")
    process.kill()
    process.wait()
    wait_until(lambda: not compose_is_running(name), "the end of the orphaned docker compose")
    assert name in leftovers.left_behind()

    doctor = command("doctor")
    swept = command("clean", name)

    assert doctor.returncode == 1 and name in doctor.stdout
    assert name in swept.stdout
    assert [] == things_of(name)


def compose_is_running(name):
    """Return whether `docker compose` still runs: it lives on for a moment when its parent is killed."""
    import psutil

    return any(name in " ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))


# Another run would be `latest`.
@pytest.mark.alone
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
def test_a_run_that_is_stopped_says_so_in_its_record_and_leaves_nothing(start_command, number):
    """Stopped in the middle of a measurement: the record is readable, the report written, no container left."""
    process = start_command("run", "semisync_wan")
    read_until(process, "round 1 of")
    (name,) = (one for one in project.all_labs() if one.startswith("run-semisync") and pid_of(one) == process.pid)

    process.send_signal(number)

    assert process.wait(30) == 3, "an interrupted run has decided nothing"
    folder = (catalogue.RUNS / "latest").resolve()
    record = Record.parse((folder / "record.jsonl").read_bytes().splitlines(keepends=True))
    assert record.interrupted == number.name
    assert record.end.why == "interrupted"
    assert json.loads((folder / "summary.json").read_bytes())["interrupted"]
    assert [] == things_of(name)


WAITING_TEST = """
from replication_lab.world.clock import wait_until

def test_that_goes_on_for_ever(lab):
    print("has", lab("semisync").name, flush=True)
    wait_until(lambda: False, "the end of the world", 600)
"""


def test_tests_that_are_stopped_take_their_labs_down(start_module, tmp_path):
    """A CI job that is cancelled sends SIGTERM: what fixtures hold is gone, without a command that sweeps."""
    waiting = tmp_path / "test_waiting.py"
    waiting.write_text(WAITING_TEST)
    process = start_module("pytest", "-s", "-p", "replication_lab.pytest_plugin", f"--rootdir={tmp_path}", str(waiting))
    lab = read_until(process, "has test-semisync")[-1].split()[-1]

    process.send_signal(signal.SIGTERM)

    assert process.wait(30) == pytest.ExitCode.INTERRUPTED
    assert [] == things_of(lab)


@pytest.mark.alone
def test_a_run_that_is_killed_keeps_its_record_and_is_swept(start_command, command):
    """What was measured can be judged; what was running is removed by the next command."""
    process = start_command("run", "semisync_wan")
    read_until(process, "round 1 of")
    (name,) = (one for one in project.all_labs() if one.startswith("run-semisync") and pid_of(one) == process.pid)
    process.kill()
    process.wait()

    judged = command("report", "latest", "--json")
    swept = command("clean", name)

    assert judged.returncode == 3
    assert all(claim["verdict"] == "UNKNOWN" for claim in json.loads(judged.stdout)["claims"])
    assert name in swept.stdout
    assert [] == things_of(name)


def pid_of(name):
    container = next(iter(project.all_labs()[name].containers.values()))
    return int(owners.parsed(container.labels[labels.LABEL]).process)


def test_a_busy_port_is_a_clear_error(command, name):
    """The port is named, and nothing of the lab is left."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        answer = command("up", "async", "--lab", name, LAB_PORT_SOURCE=str(port))

    assert answer.returncode == 2
    assert "a host port is taken" in answer.stderr and str(port) in answer.stderr
    assert [] == things_of(name)


def test_a_node_that_never_gets_healthy_shows_its_last_log_lines(monkeypatch, name):
    """A server that refuses a setting ends; the error quotes it, and nothing is left."""
    broken = catalogue.COMPOSE / f"_{name}.yaml"
    text = catalogue.compose_file("async").read_text()
    broken.write_text(text.replace("[--server-id=1]", "[--server-id=1, --no-such-setting=1]"))
    topology = catalogue.topology("async")
    monkeypatch.setattr(catalogue, "compose_file", lambda _name: broken)
    try:
        with pytest.raises(Exception, match="source did not become healthy") as error:
            project.start(LabRequest(topology, "mariadb", name))
    finally:
        broken.unlink()

    assert "no-such-setting" in str(error.value)
    assert [] == things_of(name)


@pytest.mark.long
def test_a_stopped_node_is_told_not_mended(command, name):
    """A stopped node may be under inspection; `up` says how to start it again."""
    command("up", "async", "--lab", name, "--toxic", "source-replica=lan")
    project.find(name).node("replica").container.kill()

    answer = command("up", "async", "--lab", name)

    assert answer.returncode == 2
    assert f"replica of {name} is not running" in answer.stderr
