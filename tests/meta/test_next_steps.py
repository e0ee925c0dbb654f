"""Can each command that a message prints as its next step be typed, and does it lead where the message says?"""

import shlex

import pytest
from click.testing import CliRunner
from replication_lab import cli
from replication_lab.world import catalogue
from replication_lab.world.docker import engine

from tests.next_steps import messages
from tests.next_steps.printed import STANDS_FOR, commands_of, why_refused
from tests.pages import commands

ROWS = [(module, row) for module, rows in messages.table().items() for row in rows]
# Each command that a message prints as the program has it, with words that stand for the names that it fills in.
STEPS = sorted(
    {
        typed
        for module in messages.modules()
        for message in messages.of_module(module)
        for step in messages.steps_in(message.next)
        for typed in commands_of(step)
    }
)
# Without a word that stands for something: as it is printed in every state.
WHOLE = [typed for typed in STEPS if not STANDS_FOR.search(typed)]
# A page opens in a browser; a lab of the user's is meant.
NOT_TYPED = ("./lab live",)


class _Passed(Exception):
    """The command would now ask the Docker engine."""


def test_the_table_has_each_message_that_prints_a_command():
    """By the program as it is: `python -m tests.next_steps.messages` writes the table again."""
    made = {
        (module, message.function, message.next)
        for module in messages.modules()
        for message in messages.of_module(module)
    }
    with_command = {each for each in made if any([*commands_of(step)] for step in messages.steps_in(each[2]))}
    rows = {(module, row.function, row.next) for module, row in ROWS}

    assert sorted(with_command - rows) == [], "messages that are not in tests/next_steps/messages.yaml"
    assert sorted(rows - made) == [], "rows whose message the program does not make any more"
    assert len(rows) == len(ROWS) > 200


def test_the_tests_whose_states_print_a_message_exist():
    """A test that was renamed is seen."""
    named = {row.state for _, row in ROWS if row.state != "none"}
    gone = [name for name in named if not _exists(*name.split("::"))]

    assert sorted(gone) == []


def _exists(file: str, *names: str) -> bool:
    path = catalogue.ROOT / file
    return path.is_file() and f"def {names[-1]}(" in path.read_text()


@pytest.mark.parametrize("typed", STEPS)
def test_a_next_step_is_a_command_with_options_that_it_has(typed):
    """Whatever is filled in for the names."""
    word = shlex.split(typed.replace("…", ""))[1]

    assert word == messages.STANDS_FOR or why_refused(typed) == ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make a folder with the files that pages and messages name."""
    made = tmp_path_factory.mktemp("reader")
    commands.make_files(made)
    return made


@pytest.mark.parametrize("typed", [typed for typed in WHOLE if not typed.startswith(NOT_TYPED)])
def test_a_next_step_that_is_printed_as_it_stands_is_not_refused(typed, folder, monkeypatch, runs):
    """It names things that exist: it does its work, or comes to where it needs a lab or a run of the user's."""

    def passed(*_arguments, **_options):
        raise _Passed

    monkeypatch.chdir(folder)
    for name in ("ensure", "client", "run_as_root"):
        monkeypatch.setattr(engine, name, passed)
    monkeypatch.setattr("replication_lab.world.installing.run_as_root", passed)
    found = CliRunner().invoke(cli.cli, shlex.split(typed)[1:], prog_name="lab")

    said = f"{found.exception!r}{found.output}"
    assert found.exit_code == 0 or isinstance(found.exception, _Passed) or "no record" in said, said


@pytest.mark.parametrize(
    "typed",
    [
        "./lab attach",
        "./lab run semisync_wan --enigne mariadb",
        "./lab liste",
        './lab sql x -e "',
        "./lab list thing s",
    ],
)
def test_a_step_that_would_be_refused_is_seen(typed):
    """By a missing option, a misspelt one, a command that there is not, a quote, a word too many."""
    assert why_refused(typed)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("repair that, then ./lab detach --lab shop; until then it uses the lab", ["./lab detach --lab shop"]),
        ("./lab status; ./lab sql a", ["./lab status", "./lab sql a"]),
        ('./lab sql a -e "SHOW, x", which lists', ['./lab sql a -e "SHOW, x"']),
        ("as root: sudo -u '#1' ./lab down --lab a, or ./lab status", ["./lab down --lab a", "./lab status"]),
        ("the lab chooses; docker pull lab/x", []),
    ],
)
def test_the_commands_of_a_sentence_are_found(text, found):
    """The words around them are not typed."""
    assert list(commands_of(text)) == found
