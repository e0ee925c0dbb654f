"""Did the nodes of a cluster stay what they were? Each tells its state, the number of its view, and how it is set."""

from collections.abc import Callable
from dataclasses import dataclass, field

from replication_lab.replication import group
from replication_lab.witnesses.sampled import Following, Sampled
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql import own_settings
from replication_lab.world.mysql.galera import GaleraNode
from replication_lab.world.mysql.server import Server

STAYED = "no node left its cluster, joined one or desynchronized, but by what the lab did"
# Galera's variables by which a node leaves its cluster, or does without it, while it runs.
SET = ("wsrep_cluster_address", "wsrep_desync")
# By when what this process has set is noted.
NOTED_SECONDS = 0.05


def members(lab: Lab) -> Sampled[Server]:
    """Return the witness of all nodes of a cluster; of other kinds of replication there is nothing to read."""
    told = READ.get(lab.topology.replication)
    readings = {node.name: Member(told) for node in lab.topology.nodes} if told else {}
    # One that never answers is not observed: as to an account that may not read the state of replication.
    return Sampled(STAYED, lab, readings, answers=lambda _, node: not readings[node].has_answered)


def _galera(server: Server) -> dict[str, str]:
    """Return what a node of Galera tells; the number of its view counts the changes of the cluster."""
    found = GaleraNode(server).status()
    return {"state": found.state, "view": f"{found.view} of {found.history[:8]}", **server.global_values(*SET)}


def _group(server: Server) -> dict[str, str]:
    """Return what a member of a group tells; its view has a number of its own, and its group one primary."""
    found = group.member(server)
    return {"state": found.state, "view": found.view_id, "role": found.role, "primary": " ".join(found.primaries)}


READ: dict[str, Callable[[Server], dict[str, str]]] = {"galera": _galera, "group": _group}


@dataclass
class Member:
    """A node of a cluster, compared with what it told before; what is set is lost when its server ends."""

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
        changed = [name for name in before if now[name] != before[name]]
        if set(changed) & set(SET):
            clock.pause(NOTED_SECONDS)
            changed = [name for name in changed if name not in own_settings.made(server.address)]
        return [_told(name, server.name, now[name], before[name]) for name in changed]


def _told(name: str, node: str, now: str, before: str) -> str:
    said = f"{name} was {now or 'unknown'} on {node}, after {before or 'unknown'}"
    return said if name in SET else Following(said)
