"""The exit code of each command, and for one release those that 0.2 had: docs/commands.md has the table."""

import os
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

from replication_lab.model.core.exit_code import ExitCode

# With this value the variable LAB_EXIT_CODES gives the codes of 0.2. It leaves with the release after 0.3.
OLD = "old"
OF_0_2 = {ExitCode.USAGE: 3, ExitCode.UNKNOWN: 2}


def code_of(code: ExitCode | int, old: int | None = None) -> int:
    """Return the code that a command ends with; `old` is that of 0.2 where it was neither swapped nor the same."""
    if os.environ.get("LAB_EXIT_CODES") != OLD or code == ExitCode.GOOD:
        return code
    return OF_0_2.get(ExitCode(code), code) if old is None else old


def leave(code: ExitCode | int, old: int | None = None) -> NoReturn:
    """End the command with a code, as `code_of` returns it."""
    sys.exit(code_of(code, old))


def leave_by(checked: Iterable[Any], failed: ExitCode) -> NoReturn:
    """End the command with GOOD if each check is good, else with `failed`, which was 3 in 0.2."""
    leave(ExitCode.GOOD if all(each.ok for each in checked) else failed, old=3)
