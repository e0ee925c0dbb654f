"""Did servers keep their variables, their states, their cluster and their links? Each is asked again and again."""

import re
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from replication_lab.model.core.variable import is_same
from replication_lab.model.lab.topology import Link
from replication_lab.replication import group, kind_of
from replication_lab.witnesses.sampled import LATE_SECONDS, AtWork, Following, Sampled
from replication_lab.world import clock, requests_made
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.galera import GaleraNode
from replication_lab.world.mysql.server import Server
from replication_lab.world.requests_made import OwnSetting, has_set, made

KEPT = "the servers kept each variable that the lab set"
HELD = "each server stayed in the state in which a fault held it"

# Returns in words how a server is not as the fault left it; an empty string if it is.
Contrary = Callable[[Server], str]
# By the lab, the node and the fault: two faults may hold one server.
_held: dict[tuple[str, str, int], Contrary] = {}
_lock = threading.Lock()
CROSSES = "replicas read from their source across their links"
# The command of a thread that sends the binary log to a replica, with or without GTIDs.
SENDS = "Binlog Dump"
STAYED = "no node left its cluster, joined one or desynchronized, but by what the lab did"
# Galera's variables by which a node leaves its cluster, or does without it, while it runs.
SET = ("wsrep_cluster_address", "wsrep_desync")
# What a node logs when it leaves its cluster, does without it or lost its majority; and what all members of a group log
# when somebody asks for another primary or mode, which none does by itself. A log cannot be turned back.
LOGGED = {
    "galera": re.compile(r"Shifting SYNCED -> \S+|Received NON-PRIMARY"),
    "group": re.compile(r"Starting group operation local execution: [^']+"),
}


def variables(lab: Lab) -> Sampled[Server]:
    """Return the witness of all servers of a lab; one without a variable of the lab is not connected to."""
    return Sampled(KEPT, lab, dict.fromkeys((node.name for node in lab.topology.nodes), changed_by_others))


def changed_by_others(server: Server) -> list[str]:
    """Return the variables that have another value than this process gave them, in words."""
    asked = requests_made.settings_made(server.address)
    if not asked:
        return []
    found = server.global_values(*asked)
    other = {name: value for name, value in found.items() if not is_same(asked[name].value, value)}
    # One that this process has set during the reading may have either value.
    now = requests_made.settings_made(server.address)
    kept = {name: asked[name] for name in other if now.get(name) == asked[name]}
    return [
        f"{name} was {other[name]} on {server.name}, not {one.value}"
        for name, one in kept.items()
        if not _has_restarted(server, one)
    ]


def _has_restarted(server: Server, since: OwnSetting) -> bool:
    """Return whether a server was started again, and lost what was set: it tells whole seconds since its start."""
    up = server.rows("SHOW GLOBAL STATUS LIKE 'Uptime'")[0]["Value"]
    return clock.timer() - float(up) > since.at


def hold(lab: Lab, node: str, fault: object, contrary: Contrary) -> None:
    """Expect from now on that a server is as a fault has left it."""
    with _lock:
        _held[lab.name, node, id(fault)] = contrary


def release(lab: Lab, node: str, fault: object) -> None:
    """Expect it no longer: the fault is being undone."""
    with _lock:
        _held.pop((lab.name, node, id(fault)), None)


def release_all(lab: Lab, node: str) -> None:
    """Expect nothing of a server any more: the lab promotes it, which ends whatever holds it."""
    with _lock:
        for key in [each for each in _held if each[:2] == (lab.name, node)]:
            del _held[key]


def held_states(lab: Lab) -> Sampled[Server]:
    """Return the witness of all servers of a lab; one that no fault holds is not connected to.

    A failover manager that promotes a replica ends by itself what holds it, but not before something is done to a node.
    """
    said = Following if lab.manager else str
    readings = {node.name: partial(_contrary, lab.name, node.name, told=said) for node in lab.topology.nodes}
    return Sampled(HELD, lab, readings)


def _contrary(lab: str, node: str, server: Server, told: type[str] = str) -> list[str]:
    asked = _of(lab, node)
    found = {fault: said for fault, contrary in asked.items() if (said := contrary(server))}
    # A fault that was undone during the reading may be seen or not.
    return [told(said) for fault, said in found.items() if fault in _of(lab, node)]


def _of(lab: str, node: str) -> dict[int, Contrary]:
    with _lock:
        return {fault: contrary for (of, name, fault), contrary in _held.items() if (of, name) == (lab, node)}


def paths(lab: Lab, across: Collection[str] | None = None) -> Sampled[Server]:
    """Return the witness of all links of a lab across which a replica reads its source's log.

    A replica's own status shows the name that it dials, not where the packets go.
    `across` names the links that must be crossed, by default all. Some cases let a replica read past a link that has no
    condition, which changes nothing.
    The nodes of a cluster do not; a node that rejoins a group reads one, and its sidecar hides where it comes from.
    """
    by_source = dict[str, list[Link]]()
    names = {node.name for node in lab.topology.nodes} if kind_of(lab.topology).follows_a_source else set()
    for link in lab.topology.links:
        if {link.source, link.target} <= names and not link.echoes and (across is None or link.name in across):
            by_source.setdefault(link.server, []).append(link)
    return Sampled(CROSSES, lab, {source: partial(_past, lab, links) for source, links in by_source.items()})


def readers(source: Server) -> set[str]:
    """Return the addresses to which a source's threads send its log, also those of connections that have just ended."""
    found = source.rows("SHOW PROCESSLIST")
    return {str(row["Host"]).rpartition(":")[0] for row in found if str(row["Command"]).startswith(SENDS)} - {""}


def _past(lab: Lab, links: list[Link], source: Server) -> list[str]:
    """Return which replicas read a source's log past their links, in words."""
    # The engine may answer late, and what the source tells is noted at the end of this reading.
    own = [(link, lab.service(link.dialler).addresses()) for link in links]
    hosts = readers(source)
    past = [link for link, addresses in own if hosts & addresses]
    return [AtWork(f"{link.dialler} read from {source.name} past link {link.name}") for link in past]


def members(lab: Lab) -> Sampled[Server]:
    """Return the witness of all nodes of a cluster; of other kinds of replication there is nothing to read."""
    told = READ.get(lab.topology.replication)
    readings = {node.name: Member(told) for node in lab.topology.nodes} if told else {}
    # One that never answers is not observed: as to an account that may not read the state of replication.
    logged = dict.fromkeys(readings, partial(_logged, lab.topology.replication))
    return Sampled(STAYED, lab, readings, answers=lambda _, node: not readings[node].has_answered, logged=logged)


def _galera(server: Server) -> dict[str, str]:
    """Return what a node of Galera tells; the number of its view counts the changes of the cluster."""
    found = GaleraNode(server).status()
    return {"state": found.state, "view": f"{found.view} of {found.history[:8]}", **server.global_values(*SET)}


def _group(server: Server) -> dict[str, str]:
    """Return what a member of a group tells; its view has a number of its own, and its group one primary."""
    found = group.member(server)
    return {"state": found.state, "view": found.view_id, "role": found.role, "primary": " ".join(found.primaries)}


READ: dict[str, Callable[[Server], dict[str, str]]] = {"galera": _galera, "group": _group}


def _logged(replication: str, node: str, at: float, line: str) -> str:
    """Return in words what a line of a node's log tells; nothing of an election that the lab asks for."""
    said = f"{node} logged: {found[0]}" if (found := LOGGED[replication].search(line)) else ""
    if not said or replication == "galera":
        return Following(said)
    own = (one for one in made() if one.kind == "primary")
    return "" if any(one.overlaps(at - LATE_SECONDS, at + LATE_SECONDS) for one in own) else said


@dataclass
class Member:
    """What a node tells, compared with what it told before; what is set is lost when its server ends."""

    read: Callable[[Server], dict[str, str]]
    _server: Server | None = None
    _before: dict[str, str] = field(default_factory=dict)

    @property
    def has_answered(self) -> bool:
        return bool(self._before)

    def __call__(self, server: Server) -> list[str]:
        now = self.read(server)
        lost = () if server is self._server else SET
        before = {name: self._before.get(name, value) for name, value in now.items() if name not in lost}
        self._server, self._before = server, now
        changed = [name for name in before if now[name] != before[name] and not has_set(server.address, name)]
        return [_told(name, server.name, now[name], before[name]) for name in changed]


def _told(name: str, node: str, now: str, before: str) -> str:
    said = f"{name} was {now or 'unknown'} on {node}, after {before or 'unknown'}"
    return said if name in SET else Following(said)
