"""Packet rules that a killed Docker engine left on this host.

An engine that ends by itself removes the rules of its networks. A killed one leaves them, for bridges that no longer
exist. A rule that rewrites source addresses (MASQUERADE) excludes its own bridge only: in a new network with the same
subnet it rewrites the traffic between containers to the gateway's address. A cluster's node then does not join.
"""

import os
import re
import shutil
import socket
import subprocess
from dataclasses import dataclass

from replication_lab.world import clock

# Docker names the bridge of a network by the first twelve digits of the network's ID.
BRIDGE = re.compile(r"(?<!\S)-[io] (br-[0-9a-f]{12})(?!\S)")
SAVE = "iptables-save"
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
BETWEEN_SECONDS = 1


@dataclass(frozen=True)
class PacketRule:
    """A rule of a table, as iptables-save prints it, for a bridge that does not exist."""

    table: str
    text: str
    bridge: str

    @property
    def rewrites_sources(self) -> bool:
        return self.table == "nat" and "-j MASQUERADE" in self.text

    @property
    def subnet(self) -> str:
        """Return the subnet whose traffic the rule is for; an empty string if it names none."""
        found = re.search(r"(?<!\S)-s (\S+)", self.text)
        return found[1] if found else ""

    @property
    def delete(self) -> str:
        """Return the command that deletes the rule, for root."""
        return f"iptables -t {self.table} -D {self.text.removeprefix('-A ')}"


def stale() -> list[PacketRule] | None:
    """Return the rules for bridges that do not exist; None if they cannot be read: not root, or no iptables.

    They are read twice: an engine that removes a network deletes its bridge a moment before its rules.
    """
    found = _now()
    if not found:
        return found
    clock.pause(BETWEEN_SECONDS)
    again = _now() or []
    return [rule for rule in found if rule in again]


def _now() -> list[PacketRule] | None:
    rules = saved()
    return None if rules is None else parse(rules, {name for _, name in socket.if_nameindex()})


def saved() -> str | None:
    program = shutil.which(SAVE, path=_PATH)
    if not program:
        return None
    ended = subprocess.run([program], capture_output=True, text=True, check=False)
    return None if ended.returncode else ended.stdout


def parse(saved: str, interfaces: set[str]) -> list[PacketRule]:
    """Return the rules in the output of iptables-save that name a Docker bridge which is not among the interfaces."""
    found, table = [], ""
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith("-A "):
            gone = [bridge for bridge in BRIDGE.findall(line) if bridge not in interfaces]
            found += [PacketRule(table, line, gone[0])] if gone else []
    return found
