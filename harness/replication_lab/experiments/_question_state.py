"""The state that a case of a user's question asks for: set before a load, and proved after it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from replication_lab import replication
from replication_lab.experiments._question_load import make_tables
from replication_lab.experiments._question_machines import arrange_machines, make_machines_ready
from replication_lab.experiments._question_topologies import REPLICATED_DISK
from replication_lab.experiments._question_variables import Kept, put, server_settings
from replication_lab.experiments._replicating import bare_links, followed, restored
from replication_lab.model.experiment import Case
from replication_lab.model.measuring import ProofsOfNodes, Watch
from replication_lab.model.proof import Proof
from replication_lab.model.question import Question
from replication_lab.model.topology import NO_REPLICATION
from replication_lab.probes import galera as galera_probe
from replication_lab.probes import semisync as semisync_probe
from replication_lab.probes.waited import none_too_fast
from replication_lab.replication import group
from replication_lab.world import catalogue
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.semisync import SemiSync


def make_ready(lab: Lab) -> None:
    """Bring a lab into the state of one that has run for a while, before its tables are made."""
    if lab.topology.replication == REPLICATED_DISK:
        make_machines_ready(lab)


@contextmanager
def arrange(lab: Lab, case: Case) -> Iterator[Watch]:
    """Set a case's variables and its replication; yield the watch that proves both over the load."""
    arranged = ARRANGED[lab.topology.replication]
    settings = server_settings(lab, case.settings["variables"], case.settings["files"])
    with settings as kept, arranged(lab, case) as watch:
        yield _Settings(watch, lab, kept, bare=bool(lab.topology.links) and not case.settings["toxics"])


def hold(question: Question, lab: Lab, case: Case) -> ProofsOfNodes:
    """Set a case's variables on the lab of a drill, which is removed afterwards; return what proves them there.

    If the drill's clients run the user's transactions, make the tables of these first.
    """
    if question.ledger:
        make_tables(question, replication.of(lab).writer())
    return put(lab, case.settings["variables"], case.settings["files"]).proofs_of


@contextmanager
def _cluster(lab: Lab, case: Case) -> Iterator[Watch]:
    servers = [lab.node(node.name).server() for node in lab.topology.nodes]
    galera_probe.wait_until_synced(servers, len(servers))
    yield galera_probe.Watch(servers, _round_trip_ms(case), throttled=False)


@contextmanager
def _source_and_replicas(lab: Lab, case: Case) -> Iterator[Watch]:
    source = lab.node(lab.topology.source.name).server()
    replicas = [lab.node(node.name).server() for node in lab.topology.replicas]
    wanted = case.settings["replication"]
    # Where the question leaves it open, the server's own: it must not change during the load either.
    wait_point = case.settings["wait_point"] or SemiSync(source).status().wait_point
    with restored(lab):
        if lab.topology.replication == "semisync":
            SemiSync(source).set(False)
        for replica, followed_server in followed(lab):
            if wanted == "none":
                replica.stop()
            else:
                replica.start()
                replica.wait_for(BinaryLog(followed_server).position())
        if wanted == "semisync":
            SemiSync(source).set(True, wait_point, timeout_ms=10_000)
            semisync_probe.wait_until_acknowledged(source)
        trip = _round_trip_ms(case) if wanted == "semisync" else 0
        yield semisync_probe.Watch(
            source, replicas, wanted, wait_point, "proxy", case.settings["clients"], round_trip_ms=trip
        )


@contextmanager
def _group(lab: Lab, case: Case) -> Iterator[Watch]:
    yield _GroupWatch(lab, _round_trip_ms(case))


@contextmanager
def _replicated_disk(lab: Lab, case: Case) -> Iterator[Watch]:
    with arrange_machines(lab, case, _round_trip_ms(case)) as watch:
        yield watch


@dataclass
class _GroupWatch:
    """A group before a load; `proofs` says whether it stayed the same whole group, and no commit was too fast.

    `round_trip_ms` is what the toxics add between any two members: each commit waits for a majority.
    """

    lab: Lab
    round_trip_ms: float
    before: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.before = self._views()

    def _views(self) -> set[str]:
        servers = [self.lab.node(node.name).server() for node in self.lab.topology.nodes]
        return {group.member(server).view_id for server in servers}

    def figures(self) -> dict[str, float]:
        return {}

    def proofs(self, _commits: int, fastest_ms: float | None = None) -> list[Proof]:
        after = self._views()
        stayed = Proof(
            what="no member left or joined the group",
            expected=f"view {', '.join(sorted(self.before))}",
            found=f"view {', '.join(sorted(after))}",
            ok=len(after) == 1 and after == self.before,
        )
        return [stayed, *none_too_fast(fastest_ms, self.round_trip_ms), *replication.of(self.lab).prove({})]


ARRANGED: dict[str, Callable[[Lab, Case], AbstractContextManager[Watch]]] = {
    NO_REPLICATION: _source_and_replicas,
    "async": _source_and_replicas,
    "semisync": _source_and_replicas,
    "galera": _cluster,
    "group": _group,
    REPLICATED_DISK: _replicated_disk,
}


def _round_trip_ms(case: Case) -> float:
    trips = [catalogue.toxic(name).shortest_trip_ms for name in case.settings["toxics"].values()]
    return min(trips, default=0)


@dataclass(frozen=True)
class _Settings:
    """A watch that also proves that each server setting kept its value, and that a link without a toxic has none."""

    watch: Watch
    lab: Lab
    set: Kept
    bare: bool

    def figures(self) -> Mapping[str, float]:
        return self.watch.figures()

    def proofs(self, commits: int, fastest_ms: float | None = None) -> list[Proof]:
        told = [*self.watch.proofs(commits, fastest_ms), *self.set.proofs()]
        return [*told, bare_links(self.lab)] if self.bare else told
