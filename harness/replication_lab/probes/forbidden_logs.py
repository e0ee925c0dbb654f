"""Forbidden log lines, looked for in all logs of a lab from its start on."""

import re
from collections.abc import Sequence

import msgspec

from replication_lab.model.core.errors import refuse_unknown
from replication_lab.world import catalogue
from replication_lab.world.docker.lab import Lab

LONGEST = 160


class Forbidden(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A regular expression that no log line may match, and why."""

    pattern: str
    because: str


def forbidden() -> dict[str, Forbidden]:
    """Return the patterns of harness/replication_lab/drills/forbidden.yaml by name."""
    return msgspec.yaml.decode(catalogue.FORBIDDEN.read_bytes(), type=dict[str, Forbidden])


class LogWatch:
    """The logs of a lab's nodes from now on; `tolerated` names patterns that are not looked for."""

    def __init__(self, lab: Lab, tolerated: Sequence[str] = ()):
        known = forbidden()
        for name in tolerated:
            refuse_unknown("forbidden pattern", name, known, "./lab drill")
        self._sought = {name: re.compile(one.pattern) for name, one in known.items() if name not in tolerated}
        self._lab = lab
        self._read = {node.name: len(self._log(node.name)) for node in lab.topology.nodes}

    def _log(self, node: str) -> str:
        return self._lab.node(node).logs("all")

    def found(self) -> list[str]:
        """Return each new log line that matches a pattern, as NODE: NAME: LINE."""
        return [
            f"{node}: {name}: {line.strip()[:LONGEST]}"
            for node, read in self._read.items()
            for line in self._log(node)[read:].splitlines()
            for name, pattern in self._sought.items()
            if pattern.search(line)
        ]
