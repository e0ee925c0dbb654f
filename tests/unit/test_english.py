"""Is every text that a user sees plain English, and is a change of the help seen in a diff?"""

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner
from replication_lab import cli, experiments, faults
from replication_lab.model.topology import LOADER
from replication_lab.world import catalogue

PACKAGE = Path(cli.__file__).parent.parent
FORBIDDEN = Path(__file__).with_name("forbidden_words.yaml")
SNAPSHOTS = Path(__file__).parent.parent / "snapshots"
# Functions and methods whose literal arguments a user reads.
SHOWN = {"LabError", "Proof", "tell", "print", "echo"}
YAML_TEXTS = {"about", "says", "because"}


def commands(
    command: click.Command = cli.cli, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield each command with the words that call it, groups before their commands."""
    command = command.load() if isinstance(command, cli.Deferred) else command
    yield words, command
    for name, each in sorted(getattr(command, "commands", {}).items()):
        yield from commands(each, (*words, name))


COMMANDS = {" ".join(words): command for words, command in commands()}


def helps() -> Iterator[tuple[str, str]]:
    """Yield the help of each command and of each option, with where it is shown."""
    for words, command in COMMANDS.items():
        yield f"lab {words} --help", command.help or ""
        for option in command.params:
            yield f"lab {words} {option.opts[0]}", getattr(option, "help", "") or ""


@functools.cache
def literals() -> list[tuple[str, str]]:
    """Return the literal texts of errors, proofs and printed lines, with file and line."""
    return [
        (f"{path.relative_to(PACKAGE)}:{part.lineno}", part.value)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and called(node) in SHOWN
        for argument in (*node.args, *(keyword.value for keyword in node.keywords))
        for part in ast.walk(argument)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]


def called(node: ast.Call) -> str:
    """Return the last name of what is called."""
    return getattr(node.func, "attr", "") or getattr(node.func, "id", "")


def drill_texts() -> Iterator[tuple[str, str]]:
    """Yield what the files of the drills say of the drill and of its expectations."""
    for path in sorted((PACKAGE / "drills").rglob("*.yaml")):
        for text in texts_of(yaml.load(path.read_text(), LOADER)):
            yield str(path.relative_to(PACKAGE)), text


def texts_of(data: object) -> Iterator[str]:
    """Yield the values of the keys that are texts, at any depth."""
    if isinstance(data, list):
        for each in data:
            yield from texts_of(each)
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from [value] if key in YAML_TEXTS and isinstance(value, str) else texts_of(value)


def sentences() -> Iterator[tuple[str, str]]:
    """Yield the sentences of all claims."""
    for name in experiments.names():
        for claim in experiments.load(name).claims:
            yield f"{name}, claim {claim.id}", claim.sentence


def descriptions() -> Iterator[tuple[str, str]]:
    """Yield the descriptions of all topologies, toxics and faults."""
    for name in catalogue.topologies():
        yield f"compose/{name}.yaml", catalogue.topology(name).about
    for name in catalogue.toxics():
        yield f"toxics/{name}.json", catalogue.toxic(name).about
    for name, kind in faults.kinds().items():
        yield f"fault {name}", f"{kind.does}; {kind.proof}"


def texts() -> list[tuple[str, str]]:
    """Return every text that a user sees, with where it comes from."""
    return [*helps(), *literals(), *drill_texts(), *sentences(), *descriptions()]


@functools.cache
def forbidden() -> list[tuple[re.Pattern, str]]:
    """Return what finds each forbidden word, and what to write in its place."""
    return [
        (re.compile(rf"\b(?:{each['word']})\b", re.I), each["instead"])
        for each in yaml.load(FORBIDDEN.read_text(), LOADER)
    ]


def found_in(text: str) -> list[str]:
    """Return the forbidden words of a text, each with what to write in its place."""
    return [f"{found[0]!r}; write: {instead}" for word, instead in forbidden() for found in word.finditer(text)]


def test_no_text_for_users_contains_a_forbidden_word():
    """tests/unit/forbidden_words.yaml lists them with what to write in their place."""
    wrong = [f"{where}: {text!r}: {found}" for where, text in texts() for found in found_in(text)]

    assert not wrong, "\n".join(wrong)


def test_texts_of_every_kind_are_collected():
    """Each source has texts, so that none of them passes because it is empty."""
    assert min(len(list(each)) for each in (helps(), literals(), drill_texts(), sentences(), descriptions())) > 30


def test_a_forbidden_word_is_found():
    """Whatever its case, as a whole word only."""
    assert found_in("Nobody waits") and not found_in("nobodys")


def test_every_option_says_what_it_does():
    """Each has a help of its own, that ends with a full stop or with its default."""
    silent = [
        f"lab {words} {option.opts[0]}"
        for words, command in COMMANDS.items()
        for option in command.params
        if isinstance(option, click.Option) and not re.search(r"[.\]]$", getattr(option, "help", "") or "")
    ]

    assert silent == []


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_takes_each_of_its_options_and_arguments(words):
    """A renamed option without its parameter would be noticed only when the command runs."""
    command = COMMANDS[words]
    given = {option.name: None for option in command.params if option.expose_value}

    inspect.signature(command.callback).bind(**given)


def help_of(words: str) -> str:
    """Return what `lab WORDS --help` prints, in 110 columns."""
    return CliRunner().invoke(cli.cli, [*words.split(), "--help"], prog_name="lab", terminal_width=110).output


def snapshot(words: str) -> Path:
    """Return the file that keeps the help of a command."""
    return SNAPSHOTS / f"{'-'.join(('lab', *words.split()))}.txt"


@pytest.mark.parametrize("words", COMMANDS)
def test_the_help_of_a_command_is_the_one_kept(words):
    """A change of wording is seen in a diff of tests/snapshots."""
    kept = snapshot(words).read_text() if snapshot(words).exists() else ""

    assert kept == help_of(words), (
        "the help has changed; to keep it: PYTHONPATH=harness .venv/bin/python -m tests.unit.test_english"
    )


def test_every_kept_help_is_of_a_command():
    """No snapshot is left of a command that was removed or renamed."""
    assert sorted(SNAPSHOTS.glob("*.txt")) == sorted(map(snapshot, COMMANDS))


def renew() -> None:
    """Write the help of all commands to tests/snapshots."""
    for path in SNAPSHOTS.glob("*.txt"):
        path.unlink()
    for words in COMMANDS:
        snapshot(words).write_text(help_of(words))


if __name__ == "__main__":
    renew()
