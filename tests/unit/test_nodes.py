"""Do the commands for a node act, verify it, say how to undo it, and refuse what would do nothing?"""

import dataclasses
import json
import os
import re
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from replication_lab import replication
from replication_lab.cli import cli, console
from replication_lab.lab import nodes
from replication_lab.model.core.errors import LabError
from replication_lab.replication.drbd import AS_ROOT
from replication_lab.world import catalogue
from replication_lab.world.docker import project
from replication_lab.world.docker.containers import LabContainers
from replication_lab.world.docker.service import Service

from tests.fakes.machine import machine_without_waiting


@pytest.fixture
def machine(monkeypatch):
    """Return a lab of one machine, the only one that is up."""
    found = machine_without_waiting(monkeypatch)
    monkeypatch.setattr(project, "find", lambda _name=None: found)
    return found


@pytest.fixture
def became(monkeypatch):
    """Return the commands by which the process was replaced, instead of replacing it."""
    found = []

    def replaced(_program, arguments):
        found.append(arguments)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execvp", replaced)
    monkeypatch.setenv("MYSQL_PWD", "")
    return found


def typed(*arguments):
    """Return (exit status, output) of a command; a LabError is raised as it is."""
    said = CliRunner().invoke(cli, arguments, prog_name="lab")
    if isinstance(said.exception, LabError):
        raise said.exception
    return said.exit_code, said.output


@pytest.mark.parametrize(
    ("verb", "back", "state", "said"),
    [
        ("stop", "start", ("exited", 0), "server is stopped: exited with status 0"),
        ("kill", "start", ("exited", 137), "server is killed: exited with status 137"),
        ("pause", "start", ("paused", 0), "server is frozen: no answer, paused"),
    ],
)
def test_a_node_is_broken_and_brought_back(machine, verb, back, state, said):
    """Verified both times; the way back is named, and then the new address."""
    status, out = typed(verb, "server")

    assert (status, (machine.status, machine.code)) == (0, state)
    assert out.splitlines() == [f"verified: {said}", f"to undo: ./lab {back} server --lab lab-single"]
    status, out = typed(back, "server")
    assert (status, machine.status) == (0, "running")
    assert out.splitlines() == ["verified: server runs again: serving", f"server: 127.0.0.1:{30000 + machine.starts}"]


@pytest.mark.parametrize(("signal", "code"), [("ABRT", 2), ("term", 0)])
def test_a_node_is_ended_by_another_signal(machine, signal, code):
    """With or without SIG; the server chooses the status with which it ends."""
    status, out = typed("kill", "server", "--signal", signal)

    assert (status, machine.status, machine.code) == (0, "exited", code)
    assert out.startswith(f"verified: server is killed: exited with status {code}\n")


def test_a_command_tells_less_or_more(lab, monkeypatch):
    """Progress not at all, or with its time; an error also with where it came from."""
    monkeypatch.setitem(console.told, "level", 0)

    def find(_name=None):
        console.tell("looking")
        raise LabError("no lab is running", "one", "./lab up")

    monkeypatch.setattr(project, "find", find)
    assert "looking" not in lab("stop", "server", "-q")[2]
    told = lab("stop", "server", "-v")[2]
    assert re.search(r"^ +\d+\.\d s  looking$", told, re.M) and "Traceback" in told and "no lab is running" in told


def test_a_signal_that_does_not_end_a_server_is_refused(machine):
    """Before anything is sent."""
    assert typed("kill", "server", "--signal", "HUP")[0] == 2 and machine.status == "running"


@pytest.mark.parametrize(("verb", "method"), [("pause", "pause"), ("stop", "stop")])
def test_a_verb_that_did_not_act_is_unknown(machine, monkeypatch, verb, method):
    """Sabotage: the engine says yes, and does nothing or something else."""
    monkeypatch.setattr(machine, method, machine.kill if verb == "stop" else lambda _node: None)
    status, out = typed(verb, "server")

    assert status == 3 and out.startswith("FAILED: server is ")


@pytest.mark.parametrize(
    ("verb", "state", "said"),
    [
        ("start", ("running", 0), "running"),
        ("stop", ("exited", 137), "exited with status 137"),
        ("kill", ("exited", 0), "exited with status 0"),
        ("pause", ("paused", 0), "paused"),
    ],
)
def test_a_node_in_that_state_already_is_left_as_it_is(machine, verb, state, said):
    """No error, no second start."""
    machine.status, machine.code = state
    status, out = typed(verb, "server", "--json")

    assert status == 0 and (machine.status, machine.code, machine.starts) == (*state, 1)
    assert [(proof["what"], proof["found"], proof["ok"]) for proof in json.loads(out)] == [
        ("server was not changed", said, True)
    ]


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        ("stop", "paused"),
        ("kill", "paused"),
        ("pause", "exited"),
        ("exec", "paused"),
        ("exec", "exited"),
    ],
)
def test_what_would_do_nothing_is_refused_with_the_way_back(machine, refused, verb, state):
    """A frozen process takes no signal, and one that has ended cannot be frozen."""
    machine.status = state
    error = refused(typed, verb, "server", *(["true"] if verb == "exec" else []))

    assert f"server of lab-single is {state}" in error.found and machine.status == state
    assert error.next_step == "./lab start server --lab lab-single"


def test_an_unknown_node_and_a_lab_in_use_are_refused(machine, refused):
    """Before anything is changed: a run's proofs would fail without a reason that it knows."""
    assert "unknown node of single 'servr'; did you mean server?" in refused(typed, "kill", "servr").found
    machine.in_use = True
    assert "in use by another lab command" in refused(typed, "kill", "server").found
    assert machine.status == "running"


def test_a_service_that_is_no_node_is_not_started_by_its_name(machine, refused):
    """`lab start` takes nodes only."""
    machine.status = "exited"

    assert refused(nodes.refuse_unless_running, machine, "toxiproxy").next_step == "./lab status --lab lab-single"


def test_a_log_is_printed_whole_or_from_its_end(machine, lab):
    """As text and as data; followed, each line as it comes, without what a terminal would obey."""
    assert typed("logs", "server")[1] == "its first words\nits last words"
    assert json.loads(typed("logs", "server", "--tail", "1", "--json")[1]) == {
        "node": "server",
        "lines": ["its last words"],
    }
    assert lab("logs", "server", "-f", "-n", "1")[1] == "its last words\nits newest words\n"
    with pytest.raises(LabError, match="--follow with --json"):
        typed("logs", "server", "-f", "--json")


def test_a_followed_log_is_text_also_where_a_character_comes_in_two_parts():
    """The engine sends bytes as they come."""
    parts = "Größe\n".encode()
    container = SimpleNamespace(logs=lambda **_: iter([parts[:3], parts[3:]]))
    containers = LabContainers("lab-a", lambda _: {"db": [container]})

    assert "".join(Service(containers, "db").follow_logs(5)) == "Größe\n"


def test_the_same_containers_for_another_thread_are_known_until_it_forgets_them():
    """The engine is asked once for both, and again by the one that has noticed a restart."""
    asked = []
    first, other = (LabContainers("lab-a", lambda _: asked.append(1) or {"db": [len(asked)]}) for _ in range(2))
    other.learn_from(first)
    assert first.by_service == {"db": 1} and other.by_service == {"db": 2}

    third = LabContainers("lab-a", lambda _: {"db": [9]})
    third.learn_from(first)
    assert third.by_service == {"db": 1}
    third.refresh()
    assert third.by_service == {"db": 9} and first.by_service == {"db": 1}


def test_a_command_runs_in_a_node_with_options_of_its_own(machine, became):
    """What follows the node is the command's; its exit status too, since it replaces the lab's."""
    typed("exec", "server", "ls", "-l", "--json")

    assert became == [["docker", "exec", "-i", "-e", "MYSQL_PWD", "lab-single-server-1", "ls", "-l", "--json"]]
    assert os.environ["MYSQL_PWD"] == "fake"
    assert json.loads(typed("exec", "--json", "server", "ls", "-l")[1]) == {"node": "server", "output": "its output"}
    assert machine.commands == [("ls", "-l")]


def test_a_command_in_another_service_gets_no_password(machine, became):
    """Only a node has an administrator."""
    machine.topology = dataclasses.replace(machine.topology, nodes=())
    typed("exec", "server", "ls")

    assert became == [["docker", "exec", "-i", "lab-single-server-1", "ls"]]


def test_a_command_for_a_virtual_machine_runs_in_its_guest():
    """A proxy beside it is a container alone. The password is the guest's own: no argument holds it."""
    lab = type("Lab", (), {"topology": catalogue.topology("drbd")})()
    pair = replication.of(lab)

    assert pair.inside("node1", ["ls", "-l"]) == ["guest", "ls", "-l"]
    assert pair.inside("node1", ["sh"], terminal=True) == [*AS_ROOT, "sh"]
    assert pair.inside("toxiproxy", ["ls"]) == ["ls"]
