"""A source and its replicas: healthy when all replicate, and, with semi-sync, when the source waits for them again.

And one server without replicas, and either in the state of an experiment's case.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import ClassVar

from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.progress import Tell
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.evidence import Position, View
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.measuring import Watch
from replication_lab.model.lab.succession import TakenBack, TakenOver
from replication_lab.model.lab.toxic import Toxic
from replication_lab.probes.commit_latency import TABLE, per_commit, waited
from replication_lab.probes.semisync import SemiSyncWatch, wait_until_acknowledged
from replication_lab.replication import failover, switchover
from replication_lab.replication.kind import COMMITS, Nodes, register
from replication_lab.replication.role_changes import FAILOVER, ONLINE, REJOIN, STANDBY, SWITCHOVER, quiet
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql import gtid
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync
from replication_lab.world.mysql.server import Server

# Tolerated lag of a replica that counts as in sync: clients write meanwhile.
STEP_SECONDS, ACKNOWLEDGED_SECONDS = 1, 3
# A source that fell back waits again once a replica acknowledges the newest commit, which never happens where another
# one begins within each round trip.
RESUME_SECONDS = 10
SEMISYNC_ON, SEMISYNC_OFF = "semi-sync ON", "semi-sync OFF"


class OneSource(Nodes):
    """A server that clients write to, and its replicas, if it has any."""

    @contextmanager
    def arranged(self, case: Case) -> Iterator[Watch]:
        """Set the replication and the wait point of a case; yield the watch that proves them over a load.

        The replicas must replicate by the `path` of the case: across the proxy, or directly from the source.
        """
        lab, source = self.lab, self.writer()
        replicas = [self.server(node.name) for node in lab.topology.replicas]
        wanted = case.state.replication or lab.topology.replication
        # Where the case leaves it open, the server's own: it must not change during the load either. A server without
        # the choice has only one.
        own = SemiSync(source).status().wait_point
        wait_point = own and (case.state.wait_point or own)
        with restored(lab):
            if self.acknowledges:
                SemiSync(source).set(False)
            for replica, followed_server in followed(lab):
                if wanted == "none":
                    replica.stop()
                else:
                    replica.start()
                    replica.wait_for(BinaryLog(followed_server).position())
            if wanted == "semisync":
                SemiSync(source).set(True, wait_point, timeout_ms=10_000)
                wait_until_acknowledged(source)
            trip = case.added_ms if wanted == "semisync" else 0
            usual = "named" if lab.manager and lab.manager.kind.named_links else "proxy"
            path = case.settings.get("path", usual)
            yield SemiSyncWatch(source, replicas, wanted, wait_point, path, case.state.clients, round_trip_ms=trip)


@register("async")
class Followers(OneSource):
    """A source and its asynchronous replicas."""

    whole = "replicating"
    follows_a_source = True
    replicates_between_versions = True
    refuses: ClassVar[Mapping[str, tuple[str, str]]] = {
        STANDBY: ("a replica that is stopped applies later what it has missed", "./lab stop {node}"),
        ONLINE: ("a replica that starts applies what it has missed", "./lab start {node}"),
    }
    good = f"{SEMISYNC_ON}|serving|replicating"
    doubtful = SEMISYNC_OFF
    explains = "async"

    def __init__(self, lab: Lab):
        super().__init__(lab)
        self.sources = dict(lab.topology.sources)

    def view(self, name: str) -> View:
        found = Replica(self.server(name)).status()
        if found is None:
            state = SemiSync(self.server(name)).status()
            return View((SEMISYNC_ON if state.active else SEMISYNC_OFF) if state.enabled else "serving")
        if found.healthy:
            return View("replicating", behind_s=found.lag_seconds)
        return View("not connected" if found.applying else "not applying")

    def arrangement(self) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
        """Return the roles and links by the current sources: a failover gives a node the role of another."""
        with suppress(LabError):
            found = failover.following(self.lab)
            return failover.roles(self.lab, found), failover.links(self.lab, found)
        return super().arrangement()

    def written_at(self) -> str:
        roles, _ = self.arrangement()
        return next((name for name, role in roles.items() if role == "source"), super().written_at())

    def is_whole(self, name: str) -> bool:
        if name in self.sources:
            return self._is_in_step(name)
        return bool(self.server(name).version())

    def _is_in_step(self, name: str) -> bool:
        found = Replica(self.server(name)).status()
        if found is None or not found.healthy:
            return False
        Replica(self.server(name)).wait_for(BinaryLog(self.server(self.sources[name])).position(), STEP_SECONDS)
        return True

    def wait_until_together(self) -> None:
        # Not the source: whether it waits for its replicas is another setting.
        clock.wait_until(
            lambda: all(map(self._stands_in_step, self.sources)), f"{', '.join(self.sources)} to be {self.whole}"
        )

    def _stands_in_step(self, name: str) -> bool:
        with suppress(LabError):
            if self._is_in_step(name):
                return True
        self.refuse_ended(name)
        return False

    def ended(self, name: str) -> str:
        with suppress(LabError):
            found = Replica(self.server(name)).status()
            return found.ended if found else ""
        return ""

    def wait_until_caught_up(self) -> None:
        # A relay comes before its replica, because the links are in that order.
        for name, source in self.sources.items():
            Replica(self.server(name)).wait_for(BinaryLog(self.server(source)).position())

    def positions(self) -> dict[str, Position]:
        return self.answering(self._position)

    def _position(self, name: str) -> Position:
        replica = Replica(self.server(name))
        state = replica.status()
        if not replica.server.dialect.gtids:
            return Position(state is not None, error=state.error_number if state else 0)
        held = f"{BinaryLog(replica.server).gtids()},{replica.received()}"
        left = replica.backlog()
        return Position(
            replicates=state is not None,
            received=gtid.transactions_in(held),
            unapplied=gtid.count(left.missing) if left else 0,
            error=state.error_number if state else 0,
        )

    def holders(self) -> dict[str, str]:
        return {name: self.sources.get(name, "") for name in self.names}

    def takers(self, views: Mapping[str, View]) -> list[str]:
        # A source takes writes, and so does a replica that was promoted.
        return [name for name, view in views.items() if name not in self.sources and not view.error]

    def transactions(self, name: str) -> int | None:
        return self._by_gtids(name)

    def counted(self) -> dict[str, int]:
        name = next(name for name in self.names if name not in self.sources)
        found = SemiSync(self.server(name)).status()
        return {"fallbacks": found.fallbacks} if found.enabled else {}

    def take_over(self, name: str, allow_data_loss: bool = False) -> TakenOver:
        done = failover.failover(self.lab, name, allow_data_loss)
        self._follow(done)
        return done

    def adopt(self, name: str, old: str) -> tuple[TakenOver, list[str]]:
        done, left = switchover.adopt(self.lab, name, old)
        self._follow(done)
        return done, left

    def _follow(self, done: TakenOver) -> None:
        # One that does not answer, or was not repointed, follows whom it followed.
        self.sources |= failover.sources(self.lab) | dict.fromkeys(done.replaced, done.source)
        self.sources.pop(done.source, None)

    def switch_over(self, name: str) -> TakenOver:
        manager = self.lab.manager
        done = switchover.by_manager(self.lab, manager, name) if manager else switchover.switchover(self.lab, name)
        self.sources = failover.sources(self.lab)
        return done

    def was_replaced(self, role: str) -> bool:
        return role == failover.ALONE

    def take_back(
        self,
        name: str,
        discard_errant: bool = False,
        tell: Tell = quiet,  # noqa: ARG002 - a replica shows no progress
    ) -> TakenBack:
        return failover.rejoin(self.lab, name, discard_errant)

    def commit_timeout_s(self, name: str) -> float | None:
        status = SemiSync(self.server(name)).status()
        return status.timeout_ms / 1000 if status.enabled else None


@register("semisync")
class AcknowledgingFollowers(Followers):
    """A source and its semi-synchronous replicas: one of them has each commit before the source answers it."""

    acknowledges = True
    waits_on = "nearest"
    explains = "semisync"

    @classmethod
    def makes_commits_wait(cls, state: str) -> bool:
        return state == SEMISYNC_ON

    def is_whole(self, name: str) -> bool:
        if name not in self.sources:
            # The probe's account may write to a server that refuses writes, such as one that a manager has replaced.
            if not failover.takes_writes(self.lab, name):
                return False
            # The status is stale right after a change: a commit of the probe's own shows the truth.
            wait_until_acknowledged(self.server(name), ACKNOWLEDGED_SECONDS)
        return super().is_whole(name)

    def resume_waiting(self) -> list[str]:
        name = next(each for each in self.names if each not in self.sources)
        clock.wait_until(self.lab.node(name).answers, f"{name} to answer", failover.ANSWER_SECONDS, every=0.1)
        source = SemiSync(self.server(name))
        if not source.status().enabled:
            return []
        with suppress(LabError):
            clock.wait_until(lambda: source.status().active, "commits to wait again", RESUME_SECONDS, every=0.1)
            return []
        source.set(enabled=False)
        source.set(enabled=True)
        return [f"semi-sync of {name} stays off: switch it off and on"]

    def prove(self, toxics: Mapping[str, Toxic]) -> list[Proof]:
        """Prove that a commit takes a round trip and is counted as acknowledged, and a row that every replica has."""
        source = self.writer()
        commit = self.commit_latency(source)
        before = SemiSync(source).status()
        fastest = min(commit.commits_at_once(COMMITS))
        after = SemiSync(source).status()
        acknowledged = after.acknowledged - before.acknowledged
        # The nearest replica answers first.
        trip = min(self.round_trips(source.name, toxics))
        took = per_commit(fastest, trip)
        in_groups = source.dialect.acknowledged_in_groups and after.wait_point == "AFTER_SYNC"
        # MySQL counts commits that it wrote to its log together as one.
        least = 1 if in_groups else COMMITS
        all_waited = least <= acknowledged <= COMMITS and after.unacknowledged == before.unacknowledged
        grouped = ", as one group" if in_groups and 0 < acknowledged < COMMITS else ""
        connected = f"{after.replicas} replica(s) connected, wait point {after.wait_point or 'AFTER_COMMIT'}"
        return [
            Proof("semi-sync is on", connected, after.active),
            Proof(
                "a commit waits for the replica",
                f"{took}; {acknowledged} of {COMMITS} acknowledged{grouped}",
                waited(fastest, trip) and all_waited,
            ),
            self.prove_rows_arrive(source, "the source"),
        ]


@register("none")
class Alone(OneSource):
    """A topology without replication."""

    experiment = "temporary_tables"
    why_fixed = "it has a single server"
    refuses: ClassVar[Mapping[str, tuple[str, str]]] = {
        FAILOVER: (why_fixed, "./lab up async"),
        SWITCHOVER: (why_fixed, "./lab up async"),
        REJOIN: (why_fixed, "./lab up async"),
        STANDBY: (why_fixed, "./lab stop {node}"),
        ONLINE: (why_fixed, "./lab start {node}"),
    }

    @classmethod
    def accepts_writes(cls, state: str) -> bool:
        return state == cls.good

    def view(self, name: str) -> View:
        self.server(name).version()
        return View("serving")

    def is_whole(self, name: str) -> bool:
        return bool(self.server(name).version())

    def prove(self, _toxics: Mapping[str, Toxic]) -> list[Proof]:
        """Prove that a row can be written and read back; no other node has it."""
        server, count = self.writer(), f"SELECT COUNT(*) FROM {TABLE}"
        commit = self.commit_latency(server)
        before = server.value(count)
        commit.commits(1)
        after = server.value(count)
        return [Proof("a written row can be read", f"{after - before} of 1", after > before)]


@contextmanager
def restored(lab: Lab) -> Iterator[None]:
    """Switch semi-sync off after the block, where the servers have it, and let each replica run and catch up.

    After an interruption no case follows, and the lab is removed: nothing is waited for.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException:
        _restore(lab)
        raise
    else:
        _restore(lab)


def _restore(lab: Lab) -> None:
    if replication.kind_of(lab.topology).acknowledges:
        SemiSync(lab.node(lab.topology.source.name).server()).set(False)
    for replica, source_of_it in followed(lab):
        # Also where it should be running: a replica that was stopped by other means must not spoil the next case.
        replica.start()
        replica.wait_for(BinaryLog(source_of_it).position())


def followed(lab: Lab) -> Iterator[tuple[Replica, Server]]:
    """Yield each replica with the server that it follows; a relay comes before its own replica, as the links do."""
    for link in lab.topology.links:
        yield Replica(lab.node(link.target).server()), lab.node(link.source).server()
