"""The replication that running servers have, where no topology of the lab says it: asked from the servers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replication_lab.model.core.errors import LabError
from replication_lab.replication.group import member
from replication_lab.world.mysql.features import features_of
from replication_lab.world.mysql.galera import GaleraNode
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync
from replication_lab.world.mysql.server import Server

CLUSTERS = ("galera", "group")


@dataclass(frozen=True)
class Recognised:
    """A set of servers that replicate: the kind, each server's role, and the source of each replica.

    `dialled` is the name by which a replica connects to its source.
    """

    replication: str
    roles: Mapping[str, str]
    follows: Mapping[str, str] = field(default_factory=dict)
    dialled: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_cluster(self) -> bool:
        return self.replication in CLUSTERS


def recognised(servers: Mapping[str, Server], names: Mapping[str, Sequence[str]], wanted: str) -> Recognised:
    """Return the set of servers that `wanted` belongs to; `names` are those by which each can be reached.

    LabError if they are a group with several primaries.
    """
    for kind in CLUSTERS:
        if members := _members(kind, servers, wanted):
            if kind == "group":
                _require_one_primary(servers[wanted], members)
            return Recognised(kind, dict.fromkeys(members, "member"))
    by_name = {name: server for server, known in names.items() for name in known}
    hosts = {name: host for name, server in servers.items() if (host := _source_host(server))}
    follows = {name: by_name[host] for name, host in hosts.items() if host in by_name}
    found = _connected(wanted, follows)
    roles = {name: _role(name, follows) for name in servers if name in found}
    # A source comes before its replicas.
    ordered = dict(sorted(roles.items(), key=lambda each: _depth(each[0], follows)))
    kept = {name: follows[name] for name in ordered if name in follows}
    if not kept:
        return Recognised("none", {wanted: "source"})
    waits = any(SemiSync(servers[source]).status().active for source in set(kept.values()))
    dialled = {name: hosts[name] for name in kept}
    return Recognised("semisync" if waits else "async", ordered, kept, dialled)


def outside(servers: Mapping[str, Server], names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return each server that replicates from an address that belongs to no service of the project, with it."""
    known = {name for found in names.values() for name in found}
    hosts = {name: _source_host(server) for name, server in servers.items()}
    return {name: host for name, host in hosts.items() if host and host not in known}


def _source_host(server: Server) -> str:
    status = Replica(server).status()
    return status.host if status else ""


def _members(kind: str, servers: Mapping[str, Server], wanted: str) -> list[str]:
    """Return the servers with the same history of a cluster as the wanted one; empty if that is in none."""
    histories = {name: _history(kind, server) for name, server in servers.items()}
    mine = histories[wanted]
    return [name for name, history in histories.items() if mine and history == mine]


def _history(kind: str, server: Server) -> str:
    if kind not in features_of(server):
        return ""
    try:
        return GaleraNode(server).status().history if kind == "galera" else _group(server)
    except LabError:
        return ""


def _group(server: Server) -> str:
    found = member(server)
    return found.history if found.states and found.state != "OFFLINE" else ""


def _require_one_primary(server: Server, members: Sequence[str]) -> None:
    """Refuse a group in multi-primary mode: proofs, promotion and the ledger need the one server that is written to."""
    primaries = member(server).primaries
    if len(primaries) > 1:
        raise LabError(
            f"the group of {', '.join(members)} has {len(primaries)} primaries: {', '.join(primaries)}",
            "a group in single-primary mode",
            "SELECT group_replication_switch_to_single_primary_mode() on one of them, then attach again",
        )


def _connected(wanted: str, follows: Mapping[str, str]) -> set[str]:
    found = {wanted}
    while more := {each for pair in follows.items() if set(pair) & found for each in pair if each not in found}:
        found |= more
    return found


def _role(name: str, follows: Mapping[str, str]) -> str:
    if name in follows:
        return "relay" if name in follows.values() else "replica"
    return "source"


def _depth(name: str, follows: Mapping[str, str]) -> int:
    # A ring of servers has no first one; none is deeper than their number.
    depth = 0
    while name in follows and depth <= len(follows):
        name, depth = follows[name], depth + 1
    return depth
