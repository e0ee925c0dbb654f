"""Commands of the previous release that have another name now (renamed.toml): each says what to type instead."""

import tomllib
from pathlib import Path

import click

from replication_lab.cli.console import complain
from replication_lab.cli.exit_codes import leave
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.exit_code import ExitCode

RENAMED: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def command(name: str) -> click.Command | None:
    """Return the command that tells the present name of an earlier command or group; None if there was none."""
    if not any(old.partition(" ")[0] == name for old in RENAMED):
        return None
    anything = {"ignore_unknown_options": True, "help_option_names": []}
    words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    return click.Command(name, context_settings=anything, params=[words], callback=lambda words: _tell(name, words))


def _tell(name: str, words: tuple[str, ...]) -> None:
    """Print what replaced a command, and exit with a status that is no success."""
    typed = " ".join((name, *words[:1]))
    chosen = typed if typed in RENAMED else name
    found = {old: now for old, now in RENAMED.items() if old == chosen or old.startswith(f"{chosen} ")}
    expected = "; ".join(f"`lab {now}` in place of `lab {old}`" for old, now in found.items())
    complain(LabError(f"there is no `lab {chosen}` any more", expected, f"./lab {next(iter(found.values()))}"))
    leave(ExitCode.USAGE, old=2)
