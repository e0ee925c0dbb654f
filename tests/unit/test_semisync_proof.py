"""Does the proof of a semi-synchronous pair tell commits that wait from commits that do not, also at the same time?"""

from dataclasses import replace

import pytest
from replication_lab import replication
from replication_lab.probes.commit_latency import CommitLatency
from replication_lab.world import catalogue
from replication_lab.world.mysql.semisync import SemiSync

from tests.fakes.lab import FakeLab


def proved(fake_world, monkeypatch, engine="mariadb", wait_point="AFTER_SYNC", ms=85.4, counted=(2, 0)):
    """Return the proof of two commits of this latency; `counted` are acknowledged and not acknowledged ones."""
    lab = FakeLab(fake_world(), catalogue.topology("semisync"), engine)
    source = lab.node("source").server()
    SemiSync(source).set(True, wait_point)
    acknowledged, unacknowledged = counted

    def commits(_latency, count):
        found = source.semisync
        source.semisync = replace(
            found,
            acknowledged=found.acknowledged + acknowledged,
            unacknowledged=found.unacknowledged + unacknowledged,
        )
        return [ms] * count

    monkeypatch.setattr(CommitLatency, "commits_at_once", commits)
    _, waits, _ = replication.of(lab).prove({"source-replica": catalogue.toxic("wan-85ms")})
    return waits


@pytest.mark.parametrize(
    ("engine", "wait_point", "counted", "ok"),
    [
        ("mariadb", "AFTER_SYNC", (2, 0), True),
        ("mariadb", "AFTER_SYNC", (1, 0), False),
        ("mysql-8.0", "AFTER_SYNC", (2, 0), True),
        ("mysql-8.0", "AFTER_SYNC", (1, 0), True),
        ("mysql-8.0", "AFTER_COMMIT", (1, 0), False),
        ("mysql-8.0", "AFTER_SYNC", (0, 0), False),
        ("mysql-8.0", "AFTER_SYNC", (1, 1), False),
        ("mariadb", "AFTER_SYNC", (3, 0), False),
    ],
)
def test_commits_are_counted_as_the_server_counts_them(fake_world, monkeypatch, engine, wait_point, counted, ok):
    """MySQL counts commits that it wrote to its log together as one, and only at AFTER_SYNC."""
    found = proved(fake_world, monkeypatch, engine, wait_point, counted=counted)

    assert found.ok is ok
    assert ("as one group" in found.found) is (engine == "mysql-8.0" and wait_point == "AFTER_SYNC" and counted[0] == 1)


def test_commits_that_were_counted_and_did_not_wait_are_noticed(fake_world, monkeypatch):
    """The counters alone do not prove that the link delays a commit."""
    assert not proved(fake_world, monkeypatch, ms=1.2).ok
