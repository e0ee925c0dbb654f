"""The next step of an error, with the lab that the refused command named: another one may be running."""

import re

import click

from replication_lab.cli import Deferred

WORD = re.compile(r"\./lab ([a-z-]+)( [a-z-]+)?")


def with_lab(step: str, lab: str, group: click.Group) -> str:
    """Return a next step whose commands of `group` name this lab, where they take `--lab` and name none."""
    found = list(WORD.finditer(step))
    ends = [*(each.start() for each in found[1:]), len(step)]
    for word, end in reversed([*zip(found, ends, strict=False)]):
        if words := _words(group, word, step[word.start() : end]):
            at = word.start() + len(words)
            step = f"{step[:at]} --lab {lab}{step[at:]}"
    return step


def _words(group: click.Group, word: re.Match[str], typed: str) -> str:
    """Return the words of a command that takes `--lab` and does not have it; an empty string for any other."""
    words, command = f"./lab {word[1]}", group.commands.get(word[1])
    command = command.load() if isinstance(command, Deferred) else command
    if isinstance(command, click.Group) and word[2]:
        words, command = f"{words}{word[2]}", command.commands.get(word[2].strip())
    takes = command is not None and any("--lab" in each.opts for each in command.params)
    return words if takes and not {"--lab", "--help"} & set(typed.split()) else ""
