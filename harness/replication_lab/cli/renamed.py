"""Commands that other tools have by another name (renamed.toml): each says what to type instead."""

import sys
import tomllib
from pathlib import Path

import click

from replication_lab.cli.console import complain
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.exit_code import ExitCode

RENAMED: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def command(name: str) -> click.Command | None:
    """Return the command that tells the name here of another tool's command; None if there is none."""
    if name not in RENAMED:
        return None
    anything = {"ignore_unknown_options": True, "help_option_names": []}
    words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    return click.Command(name, context_settings=anything, params=[words], callback=lambda words: _tell(name))  # noqa: ARG005 - whatever follows


def _tell(name: str) -> None:
    """Print what does the same, and exit with a status that is no success."""
    now = RENAMED[name]
    complain(LabError(f"there is no `lab {name}`", f"`lab {now}` in place of `lab {name}`", f"./lab {now}"))
    sys.exit(ExitCode.USAGE)
