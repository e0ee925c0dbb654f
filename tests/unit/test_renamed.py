"""Does a command of the release before say what to type now?"""

import sys
from typing import Any

import pytest
from replication_lab import cli
from replication_lab.cli import drill as drill_command
from replication_lab.cli import renamed


@pytest.mark.parametrize(
    ("typed", "now"),
    [
        (["show", "--lab", "lab-a", "--json"], "./lab status --lab NAME"),
        (["judge", "latest"], "./lab report RUN --format text"),
        (["baseline", "check", "baseline.json", "--margin", "5%"], "./lab compare FILE RUN"),
        (["baseline", "--help"], "./lab report RUN --format baseline"),
        (["unpause", "replica"], "./lab start NODE"),
    ],
)
def test_a_command_of_the_release_before_says_what_to_type_now(lab, typed, now):
    """It does nothing else, and its status is no success."""
    status, out, err = lab(*typed)

    assert (status, out) == (2, "") and f"next: {now}" in err and "Traceback" not in err


@pytest.mark.parametrize("now", renamed.RENAMED.values())
def test_what_replaced_a_command_exists(now):
    """With its options, and it is not a command of the release before itself."""
    first, *others = now.split()
    known: dict[str, Any] = cli.cli.commands
    found = known[first].load()
    found = getattr(found, "commands", {}).get(others[0], found) if others else found
    options = {option for parameter in found.params for option in parameter.opts}

    assert {word for word in others if word.startswith("--")} <= options


@pytest.mark.parametrize(
    ("words", "typed", "now"),
    [
        (
            "drill",
            ["galera", "--fault", "kill-node", "--seconds=20"],
            ["galera", "--drill", "kill-node", "--duration", "20s"],
        ),
        ("soak", ["--minutes", "0.5"], ["--duration", "0.5min"]),
        ("ask", ["--max-minutes", "60"], ["--max-duration", "60min"]),
        ("logs", ["replica", "--lines"], ["replica", "--tail", ""]),
        ("exec", ["replica", "ls", "--lines", "3"], ["replica", "ls", "--lines", "3"]),
    ],
)
def test_an_option_of_the_release_before_still_works_and_says_its_present_name(capsys, words, typed, now):
    """Its value gets the unit that the option had; a command that is run in a node keeps its own options."""
    assert renamed.with_new_names(words, typed) == now
    told = capsys.readouterr().err
    assert ("now: lab" in told) == (typed != now)


def test_an_option_is_read_by_its_old_name(lab, monkeypatch):
    """The command itself acts as with the present one."""
    asked = []
    monkeypatch.setattr(drill_command, "_chosen", lambda *given: asked.append(given) or sys.exit(0))
    status, _, told = lab("drill", "async", "--fault", "cut-link", "--seconds", "2")

    assert (status, asked) == (0, [("async", "cut-link", 2.0)])
    assert "--fault is --drill now" in told and "--seconds is --duration now" in told


@pytest.mark.parametrize(("old", "now"), renamed.OPTIONS.items())
def test_what_replaced_an_option_exists(old, now):
    """And the old name is no option any more."""
    words, _, option = old.rpartition(" ")
    known: dict[str, Any] = cli.cli.commands
    options = {name for parameter in known[words].load().params for name in parameter.opts}

    assert now.split()[0] in options and option not in options
