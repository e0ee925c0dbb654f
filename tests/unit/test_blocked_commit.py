"""Does blocked_commit count the commits that stay blocked, and doubt a link that lost something else?"""

import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from replication_lab.workloads import blocked_commit
from replication_lab.workloads.blocked_commit import ACKNOWLEDGEMENT, NEWEST, ROW, BlockedCommits


class Source:
    """A source whose inserts wait for an acknowledgement, and a replica that gets the row if the link lets it."""

    name = "source"
    dialect = SimpleNamespace(semisync_source="rpl_semi_sync_source")

    def __init__(self, arrives, answers_again, next_frees):
        self.arrives, self.answers_again, self.next_frees = arrives, answers_again, next_frees
        self.waiting, self.rows_there, self.senders, self.inserts = [], 0, 1, 0

    def another(self):
        return self

    def execute(self, *_):
        mine = threading.Event()
        self.inserts += 1
        if self.waiting and self.next_frees:
            self.acknowledge()
            return
        self.waiting.append(mine)
        self.rows_there += self.arrives
        mine.wait(10)

    def acknowledge(self):
        for each in self.waiting:
            each.set()
        self.waiting.clear()

    def value(self, sql):
        return self.rows_there if sql == NEWEST else self.senders

    def rows(self, _sql):
        return [{"Value": len(self.waiting)}]


@pytest.fixture
def measured(monkeypatch):
    """Run two trials against such servers; return the outcome."""

    def run(loses, *, arrives, answers_again=False, next_frees=True):
        source = Source(arrives, answers_again, next_frees)

        @contextmanager
        def injected(_fault):
            yield SimpleNamespace(end=list)
            source.senders += 1
            if source.answers_again:
                source.acknowledge()

        def set_semisync(enabled, **_):
            if not enabled:
                source.acknowledge()

        monkeypatch.setattr(blocked_commit, "injected", injected)
        monkeypatch.setattr(blocked_commit, "LinkCondition", lambda *_: None)
        monkeypatch.setattr(blocked_commit, "FREED_SECONDS", 0.2)
        monkeypatch.setattr(blocked_commit, "SemiSync", lambda _: SimpleNamespace(set=set_semisync))
        kind = SimpleNamespace(wait_until_caught_up=lambda: None)
        monkeypatch.setattr(blocked_commit.replication, "of", lambda _: kind)
        replica = SimpleNamespace(name="replica", value=source.value)
        servers = {"source": source, "replica": replica}
        topology = SimpleNamespace(
            source=SimpleNamespace(name="source"), links=[SimpleNamespace(name="source-replica", target="replica")]
        )
        lab = SimpleNamespace(topology=topology, node=lambda name: SimpleNamespace(server=lambda: servers[name]))
        return BlockedCommits(loses, patience_s=0.1).run(lab, 7)

    return run


def test_a_commit_without_an_answer_is_blocked_until_the_next_write(measured):
    """Both writes of a trial count as commits of the source."""
    found = measured(ACKNOWLEDGEMENT, arrives=True)

    assert (found.figures["trials"], found.figures["blocked"], found.figures["still_blocked"]) == (2, 2, 0)
    assert found.commits == 4 and all(proof.ok for proof in found.proofs)


def test_a_commit_that_is_answered_when_the_replica_is_back_is_not_blocked(measured):
    """No further write is made."""
    found = measured(ROW, arrives=False, answers_again=True)

    assert (found.figures["blocked"], found.commits) == (0, 2)
    assert all(proof.ok for proof in found.proofs)


def test_a_commit_that_the_next_write_does_not_free_is_counted(measured):
    """It is freed by switching semi-sync off, so that the next trial can begin."""
    found = measured(ACKNOWLEDGEMENT, arrives=True, next_frees=False)

    assert (found.figures["blocked"], found.figures["still_blocked"]) == (2, 2)


def test_a_row_that_arrives_although_the_link_should_lose_it_is_a_doubt(measured):
    """Sabotage: the link carries what it should lose."""
    found = measured(ROW, arrives=True, answers_again=True)

    assert [proof.ok for proof in found.proofs] == [False, False]
    assert "received the row" in str(found.proofs[0].doubt)
