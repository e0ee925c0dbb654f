"""Does a command of the release before say what to type now?"""

from typing import Any

import pytest
from replication_lab import cli
from replication_lab.cli import renamed


@pytest.mark.parametrize(
    ("typed", "now"),
    [
        (["show", "--lab", "lab-a", "--json"], "./lab status --lab NAME"),
        (["judge", "latest"], "./lab report RUN --format text"),
        (["baseline", "check", "baseline.json", "--margin", "5%"], "./lab compare FILE RUN"),
        (["baseline", "--help"], "./lab report RUN --format baseline"),
    ],
)
def test_a_command_of_the_release_before_says_what_to_type_now(lab, typed, now):
    """It does nothing else, and its status is no success."""
    status, out, err = lab(*typed)

    assert (status, out) == (2, "") and f"next: {now}" in err and "Traceback" not in err


@pytest.mark.parametrize("now", renamed.RENAMED.values())
def test_what_replaced_a_command_exists(now):
    """With its options, and it is not a command of the release before itself."""
    first, *others = now.split()
    known: dict[str, Any] = cli.cli.commands
    found = known[first].load()
    found = getattr(found, "commands", {}).get(others[0], found) if others else found
    options = {option for parameter in found.params for option in parameter.opts}

    assert {word for word in others if word.startswith("--")} <= options
