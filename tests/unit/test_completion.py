"""Does the shell complete every command, its options, and the names that it takes?"""

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from replication_lab import cli
from replication_lab.world.docker import project

OF_NODES = ("sql", "logs", "exec", "stop", "kill", "pause", "start")


def completed(*words) -> list[str]:
    """Return what the shell offers for the last of these words."""
    *before, typed = words
    found = ShellComplete(cli.cli, {}, "lab", "_LAB_COMPLETE").get_completions(before, typed)
    return [each.value for each in found]


@pytest.fixture(autouse=True)
def labs_up(monkeypatch, runs):
    """Make a machine with two labs and no runs."""
    monkeypatch.setattr(project, "all_labs", lambda: {"lab-a": None, "lab-b": None})


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(shell):
    """It asks the command itself, by this variable."""
    assert "_LAB_COMPLETE" in CliRunner().invoke(cli.cli, ["completion", shell]).stdout


def test_every_command_is_completed():
    """From the list that `lab --help` shows."""
    assert completed("") == sorted(cli.cli.commands)
    assert completed("st") == ["standby", "start", "status", "stop"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["up", "semi"], ["semisync", "semisync-3"]),
        (["up", "--engine", "mysql-8"], ["mysql-8.0"]),
        (["run", "semisync_w"], ["semisync_wan"]),
        (["drill", "galera-"], ["galera-2", "galera-6", "galera-arbiter"]),
        (["drill", "galera", "--drill", "kill-r"], ["kill-relay", "kill-replica"]),
        (["drill", "galera", "--k"], ["--keep"]),
        (["run", "semisync_wan", "--k"], ["--keep"]),
        (["run", "semisync_wan", "--preset", "q"], ["quick"]),
        (["run", "semisync_wan", "--case", "asy"], ["async-85ms"]),
        (["run", "semisync_wan", "--rtt", "40ms", "--case", "asy"], ["async-40ms"]),
        (["run", "semisync_wan", "--claim", "async-c"], ["async-costs-little"]),
        (["run", "no_such_experiment", "--claim", "async-c"], []),
        (["link", "set", "source-replica", "wan"], ["wan-200ms", "wan-85ms"]),
        (["list", "to"], ["topologies", "toxics"]),
        (["report", ""], ["latest"]),
        (["clean", "--d"], ["--dry-run"]),
        (["down", "--lab", ""], ["lab-a", "lab-b"]),
        (["env", "--lab", "lab-b"], ["lab-b"]),
        *(([verb, "sou"], ["source"]) for verb in OF_NODES),
        (["kill", "replica", "sou"], ["source"]),
    ],
)
def test_what_a_command_takes_is_completed(words, names):
    """Topologies, engines, experiments, drills, toxics, nodes, lists, runs, labs that are up, and options."""
    assert completed(*words) == names
