"""A semi-synchronous commit that a link keeps from its acknowledgement: is it answered once the link is back?"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from replication_lab import replication
from replication_lab.faults.condition import LinkCondition
from replication_lab.faults.fault import injected
from replication_lab.model.core.proof import Proof
from replication_lab.model.experiment.measuring import PlainOutcome
from replication_lab.workloads.inserts import TABLE
from replication_lab.world.clock import timer, wait_until
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.semisync import LONGEST_MS, SemiSync
from replication_lab.world.mysql.server import Server

WRITE = "INSERT INTO lab.foo (text) VALUES ('blocked')"
NEWEST = "SELECT COALESCE(MAX(id), 0) FROM lab.foo"
SENDER = "SELECT COALESCE(MAX(id), 0) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
# What a link that carries one direction only loses, and the toxic that makes it so.
ACKNOWLEDGEMENT, ROW = "acknowledgement", "row"
FREED_SECONDS = 10
TOXICS = {ACKNOWLEDGEMENT: "one-way", ROW: "replies-only"}


@dataclass(frozen=True)
class BlockedCommits:
    """`trials` inserts without a timeout, one after another; the replica's link `loses` something of each.

    Then the link works again, and the replica reconnects. An insert that is not answered `patience_s` after that is
    blocked, and another session writes. One that is not answered within FREED_SECONDS after this is still blocked.
    """

    loses: str
    trials: int = 2
    patience_s: float = 3

    def prepare(self, lab: Lab) -> None:
        lab.node(lab.topology.source.name).server().execute(TABLE)

    def run(self, lab: Lab, _seed: int) -> PlainOutcome:
        """Return how many inserts were blocked, and how many ms after the next write these were answered."""
        source = lab.node(lab.topology.source.name).server()
        SemiSync(source).set(True, timeout_ms=LONGEST_MS)
        proofs, reconnected, freed, still = list[Proof](), list[float](), list[float](), 0
        for _ in range(self.trials):
            with _in_background(source) as pool:
                insert, took = self._loses(lab, source, pool, proofs)
                reconnected.append(took)
                if _is_answered(insert, self.patience_s):
                    continue
                began, write = timer(), pool.submit(source.another().execute, WRITE)
                is_freed = _is_answered(insert, FREED_SECONDS) and _is_answered(write, FREED_SECONDS)
                freed.append(_ms_since(began))
                if not is_freed:
                    still += 1
                    SemiSync(source).set(False)
                    SemiSync(source).set(True)
        figures = {"trials": self.trials, "blocked": len(freed), "still_blocked": still}
        times = {"reconnected_ms": median(reconnected), **({"freed_ms": median(freed)} if freed else {})}
        return PlainOutcome(self.trials + len(freed), {**figures, **times}, proofs=proofs)

    def _loses(
        self, lab: Lab, source: Server, pool: ThreadPoolExecutor, proofs: list[Proof]
    ) -> tuple[Future[None], float]:
        """Insert a row, of which the link loses something; return the insert once the replica has reconnected.

        Return also how many ms that took.
        """
        link, arrives = lab.topology.links[0], self.loses == ACKNOWLEDGEMENT
        replica = lab.node(link.target).server()
        # The replica acknowledges a row before it applies it.
        replication.of(lab).wait_until_caught_up()
        newest, sender = replica.value(NEWEST), source.value(SENDER)
        with injected(LinkCondition(lab, [link.name], TOXICS[self.loses])) as lossy:
            insert = pool.submit(source.another().execute, WRITE)
            wait_until(lambda: _waiting(source), "the insert to wait for its acknowledgement")
            if arrives:
                wait_until(lambda: replica.value(NEWEST) > newest, f"{replica.name} to apply the row")
            proofs += [
                Proof.same(
                    f"{replica.name} received the row of which the link lost the {self.loses}",
                    "yes" if newest < replica.value(NEWEST) else "no",
                    "yes" if arrives else "no",
                ),
                *lossy.end(),
            ]
        began = timer()
        wait_until(lambda: source.value(SENDER) > sender, f"{replica.name} to connect to {source.name} again")
        return insert, _ms_since(began)


def _ms_since(began: float) -> float:
    return round((timer() - began) * 1000, 3)


def _waiting(source: Server) -> bool:
    name = f"{source.dialect.semisync_source}_wait_sessions"
    return any(int(row["Value"]) for row in source.rows(f"SHOW GLOBAL STATUS LIKE '{name}'"))


def _is_answered(insert: Future[None], seconds: float) -> bool:
    try:
        insert.result(seconds)
    except TimeoutError:
        return False
    return True


@contextmanager
def _in_background(source: Server) -> Iterator[ThreadPoolExecutor]:
    """Yield threads for two sessions; if the block fails, end their waits, so that the threads end."""
    with ThreadPoolExecutor(2) as pool:
        try:
            yield pool
        except BaseException:
            SemiSync(source).set(False)
            raise
