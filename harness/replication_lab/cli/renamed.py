"""Commands of the previous release that have another name now: each says what to type instead.

A name leaves this table one release after it was replaced.
"""

import sys

import click

from replication_lab.cli.console import complain
from replication_lab.model.core.errors import LabError

# The words of the earlier command, without `lab`, and what does the same now; of a group, each of its commands.
RENAMED = {
    "show": "status --lab NAME",
    "drbd status": "status",
    "drbd promote": "failover NODE",
    "drbd standby": "standby NODE",
    "drbd online": "online NODE",
    "drbd resolve": "rejoin NODE --discard-errant",
    "drbd verify": "disk check NODE",
    "ha status": "status",
    "ha standby": "standby NODE",
    "ha online": "online NODE",
    "engines": "list engines",
    "load": "sql NODE --file FILE",
    "resume": "start NODE",
    "migrate": "disk migrate NODE",
    "top": "watch --format screen",
    "metrics": "watch --format prometheus",
    "judge": "report RUN --format text",
    "open": "report RUN --open",
    "baseline save": "report RUN --format baseline",
    "baseline check": "compare FILE RUN",
}
STATUS = 2


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
    sys.exit(STATUS)
