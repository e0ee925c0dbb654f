"""The question before a command removes or recreates something: on a terminal; elsewhere --yes is needed."""

import sys

import click

from replication_lab.model.core.errors import LabError


def at_terminal() -> bool:
    """Return whether somebody can answer."""
    return sys.stdin.isatty()


def ask(question: str, what: str, again: str) -> None:
    """Go on only if the user agrees; `what` would happen, and `again` is the same command.

    Raise LabError for another answer, and without a terminal.
    """
    if not at_terminal():
        raise LabError(f"{what}; there is no terminal to confirm it", "a terminal, or --yes", f"{again} --yes")
    if not click.confirm(question, err=True):
        raise LabError("not confirmed; nothing was changed", "the answer y", f"{again} --yes")
