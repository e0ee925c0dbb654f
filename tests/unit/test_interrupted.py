"""Is what a command says true when a signal ends it, whatever it was doing, and without a traceback?"""

import signal
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from replication_lab import cli
from replication_lab.model.core.errors import LabError
from replication_lab.model.question.sql_text import typed_statements
from replication_lab.world import catalogue, signals
from replication_lab.world.docker import lab as labs
from replication_lab.world.docker import project
from replication_lab.world.mysql import script

from tests.fakes.machine import machine_without_waiting


@pytest.fixture
def handled():
    """Handle signals as a command does, and restore their handlers."""
    before = {number: signal.getsignal(number) for number in (*signals.HANDLED, signal.SIGALRM)}
    signals.handle()
    yield
    signals.noticed()
    for number, handler in before.items():
        signal.signal(number, handler)


class Session:
    """A session whose second statement takes until a signal comes; another session can end it, unless it is deaf."""

    def __init__(self, number, running, deaf):
        self.number, self.running, self.deaf, self.rows = number, running, deaf, []

    @contextmanager
    def cursor(self, _kind=None):
        yield self

    def execute(self, sql):
        if sql == "SELECT SLEEP(60)":
            self.running.add(self.number)
            signal.raise_signal(signal.SIGTERM)
        elif sql.startswith("KILL QUERY") and not self.deaf:
            self.running.discard(int(sql.split()[-1]))
        self.rows = [{"Id": number, "Command": "Query"} for number in self.running] if "SHOW" in sql else []

    def fetchall(self):
        return self.rows

    def thread_id(self):
        return self.number


def interrupted(deaf, monkeypatch, text="SELECT 1; SELECT SLEEP(60); SELECT 2"):
    """Return what is said when SIGTERM interrupts a statement on a server."""
    running, sessions = set(), []

    def at_once(condition, what, *_):
        if not condition():
            raise LabError(what)

    monkeypatch.setattr(script.clock, "wait_until", at_once)

    class Serving:
        name = "source"

        @contextmanager
        def session(self, answer_seconds, database):
            sessions.append(Session(len(sessions) + 7, running, deaf))
            yield sessions[-1]

    with pytest.raises(signals.Stopped) as stop:
        script.run(Serving(), typed_statements(text), lambda _number, each: f"`{each.sql}`", 60)
    return str(stop.value), stop.value.said


def test_an_interruption_ends_the_running_statement_and_says_so(handled, monkeypatch):
    """And how many were run before it."""
    name, said = interrupted(False, monkeypatch)

    assert name == "SIGTERM"
    assert said.startswith("`SELECT SLEEP(60)` was ended on source by KILL QUERY, and its outcome is unknown")
    assert said.endswith("; statements run before: 1 of 3")


def test_a_statement_that_does_not_end_is_said_to_run_still(handled, monkeypatch):
    """With the command that ends it."""
    _, said = interrupted(True, monkeypatch, "SELECT SLEEP(60)")

    assert "`SELECT SLEEP(60)` may still run on source" in said and './lab sql source -e "KILL 7"' in said


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_every_signal_that_ends_a_command_is_handled(handled, name):
    """A terminal that is closed sends SIGHUP."""
    with pytest.raises(KeyboardInterrupt, match=name):
        signal.raise_signal(signal.Signals[name])


def test_a_command_under_nohup_goes_on():
    """SIGHUP is ignored when it begins."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in signals.HANDLED}
    try:
        signals.handle()
        signal.raise_signal(signal.SIGHUP)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.fixture
def ended(monkeypatch, capsys):
    """Return the status and the words of a command that is interrupted."""

    def run(command, act):
        group = cli.click.Group(commands={command: cli.Deferred(command, "node", "")})
        monkeypatch.setattr(cli.Deferred, "load", lambda _self: cli.click.Command(command, callback=act))
        monkeypatch.setattr(cli.sys, "argv", ["lab", command])
        monkeypatch.setattr(signals, "REMOVED", [])
        before = {number: signal.getsignal(number) for number in (*signals.HANDLED, signal.SIGALRM)}
        try:
            with pytest.raises(SystemExit) as stop:
                cli.main(group)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return stop.value.code, " ".join(capsys.readouterr().err.split())

    return run


def stop_by_signal():
    signal.raise_signal(signal.SIGTERM)


def test_a_command_that_started_nothing_says_of_nothing_that_it_was_removed(ended):
    """It was stopped, and that is all."""
    assert ended("status", stop_by_signal) == (143, "stopped (SIGTERM)")


def test_a_command_that_changes_a_lab_may_have_done_a_part(ended):
    """It names the command that shows the state."""
    status, said = ended("kill", stop_by_signal)

    assert status == 143 and said == "stopped (SIGTERM); it may have acted in part; ./lab status shows the state now"


def test_a_lab_that_was_removed_is_named(ended, monkeypatch):
    """By the command that had started it, and only if it was removed because of the interruption."""
    monkeypatch.setattr(labs.leftovers, "remove", lambda _name: None)
    lab = labs.Lab("lab-a", catalogue.topology("single"), "mariadb", "secret")

    def start():
        lab.down()
        try:
            stop_by_signal()
        except BaseException:
            labs.Lab("lab-b", lab.topology, "mariadb", "secret").down()
            raise

    assert ended("up", start) == (143, "stopped (SIGTERM); lab-b, which this command had started, was removed")


def test_an_interruption_that_surfaces_as_another_error_is_no_traceback(ended):
    """A library that closes a connection raises an error of its own."""

    def act():
        try:
            stop_by_signal()
        finally:
            raise ValueError("packet sequence number wrong")

    status, said = ended("status", act)

    assert status == 143 and "Traceback" not in said
    assert said == "stopped (SIGTERM); meanwhile this failed: ValueError('packet sequence number wrong')"


def test_a_command_in_a_container_is_said_to_run_still(monkeypatch):
    """The engine has no way to end it."""
    lab = machine_without_waiting(monkeypatch)
    monkeypatch.setattr(project, "find", lambda _name: lab)

    def stopped(_node, *_command):
        raise KeyboardInterrupt("SIGTERM")

    monkeypatch.setattr(lab, "run", stopped)
    found = CliRunner().invoke(
        cli.cli, ["exec", "--json", "server", "sleep", "9"], prog_name="lab", standalone_mode=False
    )

    assert found.exception is not None and isinstance(found.exception.__cause__, signals.Stopped)
    assert found.exception.__cause__.said == "the command may still run in server"


def test_what_became_of_a_statement_is_said(ended):
    """And what was removed after it, as by the start of a lab that ran a file."""

    def act():
        signals.REMOVED[:] = ["lab-a"] if removed else []
        raise signals.Stopped("SIGTERM", "`SELECT 1` may still run on source")

    said, removed = "stopped (SIGTERM); `SELECT 1` may still run on source", False
    assert ended("sql", act) == (143, said)
    removed = True
    assert ended("up", act) == (143, f"{said}; lab-a, which this command had started, was removed")
