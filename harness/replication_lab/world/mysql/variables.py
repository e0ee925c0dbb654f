"""The variables that only MySQL or only MariaDB has, and the other's in their place: variables.yaml.

Options that are no variables: not_variables.yaml.
"""

from collections.abc import Collection
from functools import cache
from pathlib import Path

import msgspec

from replication_lab.model.lab.server_version import Version

TITLES = {"mysql": "MySQL", "mariadb": "MariaDB"}


class Pair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of variables.yaml."""

    mysql: list[str]
    mariadb: list[str]
    why: str = ""

    def names_for(self, family: str, like: str) -> list[str]:
        """Return a family's names in place of the name `like`, of either family; empty if the entry lacks that."""
        own = self.mysql if family == "mysql" else self.mariadb
        for name in [*self.mysql, *self.mariadb]:
            if _fits(name, like):
                rest = like[len(name) - 1 :] if name.endswith("*") else ""
                return [each.removesuffix("*") + (rest if each.endswith("*") else "") for each in own]
        return []

    def owner(self, name: str) -> str:
        """Return the only family that has a variable; an empty string if both have it, or none."""
        owners = [family for family in TITLES if any(_fits(each, name) for each in getattr(self, family))]
        return owners[0] if len(owners) == 1 else ""


class NotVariables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of not_variables.yaml."""

    options: list[str]
    mysql_before: tuple[int, ...] = ()

    def have(self, name: str, version: Version) -> bool:
        """Return whether an option is one of these at a server of a version."""
        is_older = version.family != "mariadb" and version.numbers < self.mysql_before
        return (is_older or not self.mysql_before) and any(_fits(each, name) for each in self.options)


def _fits(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


@cache
def pairs() -> list[Pair]:
    return msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes(), type=list[Pair])


@cache
def _not_variables() -> list[NotVariables]:
    return msgspec.yaml.decode(Path(__file__).with_name("not_variables.yaml").read_bytes(), type=list[NotVariables])


def is_variable(name: str, version: Version) -> bool:
    """Return whether an option that a server's program takes is also a variable, by which it can be read."""
    return not any(each.have(name, version) for each in _not_variables())


def why_unknown(name: str, family: str, known: Collection[str] = ()) -> str:
    """Return, as the end of a sentence, what a server of a family has in place of a variable; empty if not listed.

    `known` are the server's variables; without them all names of its family are possible.
    """
    for pair in pairs():
        own = [each for each in pair.names_for(family, name) if each != name and (not known or each in known)]
        owner = pair.owner(name)
        only = f", which only {TITLES[owner]} has" if owner and owner != family else ""
        if own:
            return f"{only}; {TITLES[family]}'s is {own[0]}" if only else f"; here it is {own[0]}"
        if only:
            return f"{only}{f'; {pair.why}' if pair.why else ''}"
    return ""
