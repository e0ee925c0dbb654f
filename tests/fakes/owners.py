"""Marks of owners: like that of this process, with another number, machine, user and so on."""

from dataclasses import replace

from replication_lab.world import owners


def mark(**changes: str) -> str:
    """Return the mark of this process with changes."""
    found = owners.parsed(owners.owner())
    assert found is not None
    return str(replace(found, **changes))


def dead(**changes: str) -> str:
    """Return the mark of a process that has ended."""
    return mark(**{"process": "999999999", "since": "1", **changes})
