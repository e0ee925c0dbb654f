"""Did the rules on packets, or a replicated disk, change only by what the lab did? A program tells each change."""

import re
from dataclasses import dataclass, field
from functools import partial

from replication_lab.witnesses.sampled import TELLS, Changes, Following, Sampled, told_by
from replication_lab.world.docker import images
from replication_lab.world.docker.conversation import Conversation
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.labels import MANAGER_LABEL
from replication_lab.world.requests_made import COMMAND as RUN

KEPT_RULES = "no other program changed the rules on packets of the lab's networks"
RULES_COMMAND = ["bash", "-c", TELLS, "tells", "xtables-monitor", "--event"]
POWER = "NET_ADMIN"
UNCHANGED = "no replicated disk changed its connection, a role or a disk's state, but by what the lab did"
# A machine that boots has no resource yet, nor has it the program's kernel module.
DISK_COMMAND = ["guest", "--connected", "bash", "-c", TELLS, "tells", "drbdsetup", "events2", "lab"]
# "change device name:lab volume:0 minor:0 disk:UpToDate"
LINE = re.compile(r"^(exists|create|change|destroy) ([a-z-]+) (.*)$")
STATES = ("role", "connection", "disk", "peer-disk", "replication")
GONE = "gone"
# States that DRBD enters only by a command. It enters the others by itself, for example when a peer is lost.
COMMANDED = {
    GONE,
    *("Attaching", "Detaching", "Disconnecting"),
    *("VerifyS", "VerifyT", "StartingSyncS", "StartingSyncT"),
}
ROLE = ("resource", "role")


def packet_rules(lab: Lab) -> Sampled[Conversation]:
    """Return the witness of all networks of a lab in which a container of the lab may change rules.

    Those are a cluster's nodes, virtual machines, and links that lose packets. A node's own container may not change
    rules, and a container that others start in its network is seen by its start.
    """
    managers = [each for each in lab.containers.values() if each.labels.get(MANAGER_LABEL)]
    # A failover manager may change its own host, whose network it uses.
    its_own = {str(each.attrs["HostConfig"]["NetworkMode"]).partition(":")[2] for each in managers}
    able = [
        service
        for service, each in lab.containers.items()
        if str(each.attrs["Config"]["Image"]).startswith(images.PREFIX)
        and {POWER, f"CAP_{POWER}"} & {*(each.attrs["HostConfig"]["CapAdd"] or ())}
        and not each.labels.get(MANAGER_LABEL)
        and each.id not in its_own
    ]
    readings = {
        each: Changes(
            partial(_changed_rules, each),
            lambda made: made.kind == RUN and "bash -c " in made.what,
            str(lab.containers[each].id),
        )
        for each in able
    }
    return told_by(KEPT_RULES, lab, readings, lambda _: RULES_COMMAND)


def _changed_rules(service: str, told_by_kernel: Conversation) -> list[str]:
    """Return each change of a network's rules but the number of its generation, which follows it."""
    lines = map(str.strip, told_by_kernel.ask().splitlines())
    return [f"{service}: {line.removeprefix('EVENT: ')}" for line in lines if line.startswith("EVENT: ")]


def replicated_disks(lab: Lab) -> Sampled[Conversation]:
    """Return the witness of the machines of a replicated disk; in other labs there is nothing to read."""
    topology = lab.topology
    nodes = [node.name for node in topology.nodes] if topology.replication == "drbd" else []
    readings = {
        node: Changes(
            ResourceStates(node, bool(topology.manager)).changes,
            lambda one: one.disturbs,
            str(lab.containers[node].id),
        )
        for node in nodes
    }
    return told_by(UNCHANGED, lab, readings, lambda _: DISK_COMMAND)


@dataclass
class ResourceStates:
    """The states of a machine's resource as DRBD told them last; a manager changes them by itself after a fault."""

    node: str
    managed: bool
    _states: dict[tuple[str, str], str] = field(default_factory=dict)

    def changes(self, told_by_drbd: Conversation) -> list[str]:
        return [each for line in told_by_drbd.ask().splitlines() for each in self._changes(line)]

    def _changes(self, line: str) -> list[str]:
        found = LINE.match(line)
        if not found:
            return []
        values = dict(word.split(":", 1) for word in found[3].split() if ":" in word)
        told = {(found[2], name): values[name] for name in STATES if name in values}
        if found[1] == "destroy":
            told = {key: GONE for key in self._states if key[0] == found[2]}
        before, self._states = self._states, {**self._states, **told}
        changed = {key: value for key, value in told.items() if before.get(key, value) != value}
        return [self._words(key, before[key], value) for key, value in changed.items()]

    def _words(self, key: tuple[str, str], before: str, now: str) -> str:
        thing, name = key
        peers = "peer's " if (thing, name) == ("connection", "role") else ""
        told = f"{peers}{name} was {now} on {self.node}, after {before}"
        commanded = (key == ROLE or now in COMMANDED) and not self.managed
        return told if commanded else Following(told)
