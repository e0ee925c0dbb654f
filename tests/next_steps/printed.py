"""The commands in what a message calls the next step, and whether the real command line accepts them."""

import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from io import StringIO

import click
from replication_lab import cli
from replication_lab.model.core.errors import LabError

# Where a command begins, and what ends it outside quotes: the sentence goes on.
BEGINS = re.compile(r"(?<![\w'`])\./lab (?=[a-z-])|(?:^|(?<=[,;:] )|(?<=\bor )|(?<=\bthen ))lab (?=[a-z-])")
ENDS = re.compile(r"[,;)`]?(?:\s+(?:or|there|with that|and|which|until|in place|says)\b|[,;):](?=\s|$)|`|\n| \(| >)")
QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
# A word that stands for something that only the user knows.
STANDS_FOR = re.compile(r"[A-Z]{2,}|…")


def commands_of(text: str) -> Iterator[str]:
    """Yield each `lab` command in a text, as it would be typed."""
    starts = [found.start() for found in BEGINS.finditer(text)]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=False):
        part = text[start:end]
        # What is in quotes ends no command.
        plain = QUOTED.sub(lambda found: "x" * len(found[0]), part)
        stop = ENDS.search(plain)
        yield part[: stop.start() if stop else len(part)].strip().rstrip(".,;")


@cache
def why_refused(typed: str) -> str:
    """Return why the command line would refuse a command before it does anything; an empty string if it would not."""
    with redirect_stdout(StringIO()):
        return _why_refused(typed)


def _why_refused(typed: str) -> str:
    try:
        words = [word for word in shlex.split(typed)[1:] if word != "…"]
    except ValueError as error:
        return str(error)
    command: click.Command = cli.cli
    try:
        context = command.make_context("lab", list(words))
        while isinstance(command, click.Group):
            name, found, rest = command.resolve_command(context, words)
            if found is None:
                return f"no command {name}"
            words = rest
            context = found.make_context(name or "", list(rest), parent=context)
            # The command itself, in place of its entry: a group has commands of its own.
            command = context.command
    except click.exceptions.Exit:
        return ""
    except click.ClickException as error:
        stands = isinstance(error, click.BadParameter) and STANDS_FOR.search(typed)
        return "" if stands or isinstance(error, click.exceptions.NoArgsIsHelpError) else error.format_message()
    except LabError as error:
        return "" if STANDS_FOR.search(typed) else error.found
    return ""
