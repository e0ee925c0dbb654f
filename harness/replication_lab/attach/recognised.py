"""The replication that running servers have, where no topology of the lab says it: asked from the servers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.mysql_errors import is_denied
from replication_lab.replication.group import member
from replication_lab.world.mysql.features import features_of
from replication_lab.world.mysql.galera import GaleraNode
from replication_lab.world.mysql.replica import Replica, ReplicaStatus
from replication_lab.world.mysql.semisync import SemiSync
from replication_lab.world.mysql.server import Server

CLUSTERS = ("galera", "group")
# What a user may look at whose servers have another shape.
OTHERS = "./lab list topologies"
# Returns the service that a replica reaches at the address of a channel, None if it is none of the project.
SourceAt = Callable[[str, ReplicaStatus], str | None]


@dataclass(frozen=True)
class Recognised:
    """A set of servers that replicate: the kind, each server's role, and the source of each replica.

    `dialled` is the host and port at which a replica connects to its source.
    """

    replication: str
    roles: Mapping[str, str]
    follows: Mapping[str, str] = field(default_factory=dict)
    dialled: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def is_cluster(self) -> bool:
        return self.replication in CLUSTERS


def recognised(servers: Mapping[str, Server], source_at: SourceAt, wanted: str) -> Recognised:
    """Return the set of servers that `wanted` belongs to; `source_at` finds the source of a channel.

    LabError for a shape that the lab cannot use: several channels, a ring, members or primaries that do not fit.
    """
    for kind in CLUSTERS:
        if members := _members(kind, servers, wanted):
            if kind == "group":
                _require_one_primary(servers[wanted], members)
            _require_all_members(kind, servers[wanted], members)
            return Recognised(kind, dict.fromkeys(members, "member"))
    channels = {name: Replica(server).channels() for name, server in servers.items()}
    sources = {
        name: {channel: node for channel, state in each.items() if (node := source_at(name, state))}
        for name, each in channels.items()
    }
    found = _connected(wanted, sources)
    for name in found:
        _require_one_channel(name, channels[name])
    follows = {name: node for name, each in sources.items() for node in each.values() if name in found}
    _refuse_ring(follows)
    below = {name: "relay" if name in follows.values() else "replica" for name in follows}
    roles = {name: below.get(name, "source") for name in servers if name in found}
    if not follows:
        return Recognised("none", {wanted: "source"})
    # A source comes before its replicas.
    ordered = dict(sorted(roles.items(), key=lambda each: _depth(each[0], follows)))
    waits = any(SemiSync(servers[source]).status().active for source in set(follows.values()))
    dialled = {name: next(iter(channels[name].values())) for name in follows}
    return Recognised(
        "semisync" if waits else "async",
        ordered,
        {name: follows[name] for name in ordered if name in follows},
        {name: (state.host, state.port) for name, state in dialled.items()},
    )


def outside(servers: Mapping[str, Server], source_at: SourceAt) -> dict[str, str]:
    """Return each server that replicates from addresses that belong to no server of the project, with these."""
    hosts = {
        name: [state.host for state in Replica(server).channels().values() if not source_at(name, state)]
        for name, server in servers.items()
    }
    return {name: ", ".join(each) for name, each in hosts.items() if each}


def _require_one_channel(name: str, channels: Mapping[str, ReplicaStatus]) -> None:
    """Refuse a replica with several sources, or with one by a channel with a name: the lab's statements name none."""
    if len(channels) > 1 or any(channels):
        listed = ", ".join(f"{channel or 'without a name'} from {one.host}" for channel, one in channels.items())
        raise LabError(
            f"{name} replicates by {len(channels)} channel{'s' if len(channels) > 1 else ''} ({listed}), and the lab "
            "knows only replicas with one source, by the channel without a name",
            "replicas with one source each; several sources are not supported",
            OTHERS,
        )


def _refuse_ring(follows: Mapping[str, str]) -> None:
    for first in follows:
        ring, name = [first], follows[first]
        while name in follows and name not in ring:
            ring.append(name)
            name = follows[name]
        if name == first:
            raise LabError(
                f"{', '.join(ring)} replicate from each other in a ring, so none of them is the one source that a "
                "drill writes to",
                "a source without a source of its own; rings are not supported",
                OTHERS,
            )


def _require_all_members(kind: str, server: Server, members: Sequence[str]) -> None:
    """Refuse a cluster with members that the lab does not see: they would get what a drill writes, too."""
    size = GaleraNode(server).status().size if kind == "galera" else len(member(server).states)
    if size > len(members):
        raise LabError(
            f"the cluster of {', '.join(members)} has {size} members, and the lab sees {len(members)} of them",
            "each member as a service of the project, which accepts an account (--dsn)",
            "./lab attach --help",
        )


def _members(kind: str, servers: Mapping[str, Server], wanted: str) -> list[str]:
    """Return the servers with the same history of a cluster as the wanted one; empty if that is in none."""
    histories = {name: _history(kind, server) for name, server in servers.items()}
    mine = histories[wanted]
    return [name for name, history in histories.items() if mine and history == mine]


def _history(kind: str, server: Server) -> str:
    if kind not in features_of(server):
        return ""
    try:
        if kind == "galera":
            return GaleraNode(server).status().history
        found = member(server)
        return found.history if found.states and found.state != "OFFLINE" else ""
    except LabError as error:
        if is_denied(error.__cause__):
            raise LabError(
                f"{server.name} may be a member of a {kind}, and the account may not ask it: {error.__cause__}",
                f"an account with SELECT ON performance_schema.* besides, or root's: --dsn {server.name}=@FILE",
                f"./lab attach --help, which explains --dsn {server.name}=@FILE",
            ) from error
        return ""


def _require_one_primary(server: Server, members: Sequence[str]) -> None:
    """Refuse a group in multi-primary mode: proofs, promotion and the ledger need the one server that is written to."""
    primaries = member(server).primaries
    if len(primaries) > 1:
        raise LabError(
            f"the group of {', '.join(members)} has {len(primaries)} primaries: {', '.join(primaries)}",
            "a group in single-primary mode",
            "SELECT group_replication_switch_to_single_primary_mode() on one of them, then attach again",
        )


def _connected(wanted: str, sources: Mapping[str, Mapping[str, str]]) -> set[str]:
    pairs = [{name, node} for name, each in sources.items() for node in each.values()]
    found = {wanted}
    while more := {each for pair in pairs if pair & found for each in pair - found}:
        found |= more
    return found


def _depth(name: str, follows: Mapping[str, str]) -> int:
    return 1 + _depth(follows[name], follows) if name in follows else 0
