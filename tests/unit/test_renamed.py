"""Does a command that other tools have say what to type here?"""

from typing import Any

import pytest
from replication_lab import cli


@pytest.mark.parametrize(
    ("typed", "now"),
    [
        (["unpause", "replica"], "./lab start NODE"),
        (["restart", "--help"], "./lab stop NODE && ./lab start NODE"),
    ],
)
def test_a_command_of_other_tools_says_what_to_type_here(lab, typed, now):
    """It does nothing else, and its status is no success."""
    status, out, err = lab(*typed)

    assert (status, out) == (2, "") and f"next: {now}" in err and "Traceback" not in err


@pytest.mark.parametrize("now", cli.RENAMED.values())
def test_what_does_the_same_exists(now):
    """Each of its commands."""
    known: dict[str, Any] = cli.cli.commands

    assert {each.removeprefix("./lab ").split()[0] for each in now.split(" && ")} <= known.keys()
