"""Commands of the previous release that have another name now (renamed.toml): each says what to type instead."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from replication_lab.cli.console import complain, tell
from replication_lab.cli.exit_codes import leave
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.exit_code import ExitCode

RENAMED: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
# The option that an option is called now, by the words of its command and its old name, with the form of its value.
OPTIONS: dict[str, str] = RENAMED.pop("options")


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
    complain(LabError(f"there is no `lab {chosen}`", expected, f"./lab {next(iter(found.values()))}"))
    leave(ExitCode.USAGE, old=2)


def with_new_names(words: str, typed: Sequence[str]) -> list[str]:
    """Return what was typed after a command's words, with options of the previous release by their present names."""
    found, rest = [], iter(typed)
    for word in rest:
        option, equals, value = word.partition("=")
        now = OPTIONS.get(f"{words} {option}")
        if now is None:
            found.append(word)
            continue
        name, _, form = now.partition(" ")
        new = [name, form.format(value if equals else next(rest, ""))]
        tell(f"{option} is {name} now: lab {words} {' '.join(new)}")
        found += new
    return found
