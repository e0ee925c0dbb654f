"""Versions of servers, read from the output of a server or its program."""

import re
from typing import NamedTuple

from replication_lab.model.core.errors import LabError

FAMILIES = ("mariadb", "mysql")


class Version(NamedTuple):
    """A server's family (one of FAMILIES; Percona Server belongs to mysql), and its numbers."""

    family: str
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return f"{'MariaDB' if self.family == 'mariadb' else 'MySQL'} {'.'.join(map(str, self.numbers))}"


def parse_version(text: str) -> Version:
    """Return the version in an answer to SELECT VERSION(), or in the output of `mysqld --version`; else LabError."""
    # "mariadbd  Ver 11.8.3-MariaDB from Debian …", "8.0.33-25", "11.8.3-MariaDB-0+deb13u1".
    found = re.search(r"(?:\bVer |^)(\d+)\.(\d+)\.(\d+)", text)
    if not found:
        raise LabError(
            f"{text.strip()[:200]!r} is not the version of a server", "a version such as 8.4.3, or 11.8.3-MariaDB"
        )
    family = "mariadb" if "mariadb" in text.lower() else "mysql"
    return Version(family, tuple(map(int, found.groups())))
