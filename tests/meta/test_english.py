"""Is every text that a user sees plain English, and is a change of the help seen in a diff?"""

import ast
import functools
import inspect
import re
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner
from replication_lab import cli
from replication_lab.model.lab.topology import LOADER

from tests.meta import user_texts
from tests.meta.user_texts import COMMANDS

FORBIDDEN = Path(__file__).with_name("forbidden_words.yaml")
SNAPSHOTS = Path(__file__).parent.parent / "snapshots"
RENEW = "make texts"
# Names in the code of what is put into a text.
PUT_IN = re.compile(r"\{[^{}]*\}")
SOURCES = {"help": user_texts.helps, **user_texts.ALL}


@functools.cache
def forbidden() -> list[tuple[re.Pattern, str]]:
    """Return what finds each forbidden word, and what to write in its place."""
    return [
        (re.compile(rf"\b(?:{each['word']})\b", re.I), each["instead"])
        for each in yaml.load(FORBIDDEN.read_text(), LOADER)
    ]


@functools.cache
def any_forbidden() -> re.Pattern:
    """Return what finds a text with a forbidden word: most have none, and need no search for each word."""
    return re.compile("|".join(word.pattern for word, _ in forbidden()), re.I)


def found_in(text: str) -> list[str]:
    """Return the forbidden words of a text, each with what to write in its place."""
    said = PUT_IN.sub("…", text)
    if not any_forbidden().search(said):
        return []
    return [f"{found[0]!r}; write: {instead}" for word, instead in forbidden() for found in word.finditer(said)]


def test_no_text_for_users_contains_a_forbidden_word():
    """tests/meta/forbidden_words.yaml lists them with what to write in their place."""
    wrong = {
        f"{where}: {text!r}: {found}"
        for texts in SOURCES.values()
        for where, text in texts()
        for found in found_in(text)
    }

    assert not wrong, "\n".join(sorted(wrong))


@pytest.mark.parametrize("source", SOURCES)
def test_texts_of_every_kind_are_collected(source):
    """Each source has texts, so that none of them passes because it is empty."""
    assert len(list(SOURCES[source]())) > 30


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('raise LabError(f"{node} is frozen", "a running machine")', ["{…} is frozen; expected: a running machine"]),
        ('LabError(said, "a node", "start it" if one else each)', ["{…}; expected: a node; next: {…} start it"]),
        ('Proof("it runs", f"{what} ends", ok, expected=state)', ["it runs: expected {…}, found {…} ends"]),
        ('Proof("it runs", found, ok)', ["it runs: {…}"]),
        ('clock.wait_until(ended, f"{node} to exit", 30)', ["timed out waiting for {…} to exit"]),
        (
            'wait_until(lambda: tell("not yet"), "its end", hint="look")',
            ["timed out waiting for its end; next: look", "not yet"],
        ),
        ('def words(self):\n    """Return it."""\n    return "no " f"toxic on {self.link}"', ["no toxic on {…}"]),
        ('HEAD = "lost", f"{count} rows"', ["lost", "{…} rows"]),
        ('f"{node} of {lab} is {state}", f"{a_name and another}"', ["{…} of {…} is {…}"]),
        ("""f"{'a node' if one else ', '.join(names) or 'none'} is late" """, ["{…} a node none is late"]),
        ('re.match("line (x) of it", "the port" in said and "the log")', ["the log"]),
        ('re.sub("a pattern", "a text", said)', ["a text"]),
        ('plan["key with words"], said.startswith("model name")', []),
    ],
    ids=[
        *("an error", "a choice", "a proof", "a state", "a wait", "a hint", "words", "single words", "values"),
        *("texts in values", "searched for", "put in its place", "keys"),
    ],
)
def test_a_text_is_collected_wherever_it_is_built(code, found):
    """As one sentence; docstrings, keys and what is searched for are not texts for users."""
    assert list(user_texts.literals(code)) == found


def test_every_literal_that_is_no_message_is_in_the_package():
    """One that is there no more would hide a later message."""
    found = {node.value for path in user_texts.PACKAGE.rglob("*.py") for node in constants(path.read_text())}

    assert set(user_texts.NO_MESSAGES) <= found


def constants(code):
    return [
        node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_the_texts_of_a_script_are_collected():
    """With {…} for each value; comments are not texts for users."""
    script = """
// a comment, with "a text"
h("p", { class: "small text" }, `${node.name} is now ${role ? `the ${role}` : "in standby"}`, "it's written here");
const found = document.querySelector("table.filtered tr");  /* and `another` */
"""

    assert user_texts.scripted(script)[0] == [
        *("p", "small text", "the {…}", "in standby", "{…} is now {…}", "it's written here"),
        "table.filtered tr",
    ]


def test_the_end_of_each_text_of_a_script_is_found():
    """A quote that belongs to a regular expression would make the code up to the next one a text."""
    assert not [text for where, text in user_texts.pages() if where.endswith(".js") and re.search(r"\n|=>|\);", text)]


def test_a_forbidden_word_is_found():
    """Whatever its case, as a whole word only."""
    assert found_in("Nobody waits") and not found_in("nobodys") and not found_in("waits for {whom}")


@pytest.mark.parametrize("source", sorted(set(SOURCES) - {"help"}))
def test_a_forbidden_word_in_a_text_of_any_kind_is_found(source):
    """The same texts with one word changed: a check that reads nothing would pass them."""
    where, text = next((where, text) for where, text in SOURCES[source]() if " " in text and not found_in(text))

    assert found_in(text.replace(" ", " nobody ", 1)), where


def test_every_option_says_what_it_does():
    """Each has a help of its own, that ends with a full stop or with its default."""
    silent = [
        f"lab {words} {option.opts[0]}"
        for words, command in COMMANDS.items()
        for option in command.params
        if isinstance(option, click.Option) and not re.search(r"[.\]]$", getattr(option, "help", "") or "")
    ]

    assert silent == []


def test_every_command_takes_each_of_its_options_and_arguments():
    """A renamed option without its parameter would be noticed only when the command runs."""
    wrong = []
    for words, command in COMMANDS.items():
        if isinstance(command, click.Group) and not command.callback:
            continue
        try:
            inspect.signature(command.callback).bind(
                **{each.name: None for each in command.params if each.expose_value}
            )
        except TypeError as error:
            wrong.append(f"lab {words}: {error}")

    assert not wrong, "\n".join(wrong)


def test_every_text_of_an_option_is_shown():
    """One in commands.toml whose option was renamed would be lost without a word."""
    known = {words: {each for option in command.params for each in option.opts} for words, command in COMMANDS.items()}
    texts = {words: set(found.get("options", {})) for words, found in cli.COMMANDS.items()}

    assert {words: found - known[words] for words, found in texts.items() if not found <= known[words]} == {}
    assert cli.SHARED.keys() - set.union(*known.values()) == set()


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

    assert kept == help_of(words), f"the help has changed; to keep it: {RENEW}"


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
