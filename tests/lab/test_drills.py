"""Drills on real servers: a quick one of each topology, and what is promised or known to be lost beyond that."""

import pytest
from replication_lab.faults.kill import Kill
from replication_lab.model.core.verdict import Verdict
from replication_lab.replication.failover import sources
from replication_lab.runner import drill_set
from replication_lab.world.docker.service import Node

SEEDS = (7, 8, 9)
# One of each topology; asynchronous replication loses rows in a test of its own. That of the Galera cluster is in
# test_galera_drills.py, on the cluster of that module; machines with a replicated disk lose their primary in
# test_drbd.py and test_ha.py, on those that are up. The drill of slow disks is in test_raid_sabotage.py.
QUICK = [
    ("fanout", "lose-source"),
    ("chain", "kill-relay"),
    ("semisync-3", "cut-one-link"),
    ("single", "kill"),
    ("semisync", "lose-source-after-sync"),
]
# Other faults, and claims: what a fall back, a wait point and read_only mean. Not in `make test`.
MORE = [
    ("async", "cut-link"),
    ("semisync", "cut-link"),
    ("semisync", "read-before-loss-after-commit"),
    ("async", "clock-replica"),
    ("async", "lossy-link"),
    ("async", "read-only"),
    ("single", "pause"),
    ("single", "memory"),
    ("single", "clock"),
]
# A minute each, with the comparison of both disks.
REPLICATED = [
    *((topology, each.name) for topology in ("drbd", "drbd-ha") for each in drill_set.known()[topology]),
]


# A lab is started once where its drills are together: chain is the first, single the last, which sabotage follows.
ALL = sorted(
    [*(pytest.param(*pair) for pair in QUICK), *(pytest.param(*pair, marks=pytest.mark.long) for pair in MORE)],
    key=lambda pair: pair.values[0],
)


def surprises(result):
    """Return the expectations whose verdict differs from that in the drill's file, with the reason."""
    differing = [one for one in result.judgements if one.verdict is not one.expected]
    return {one.sentence: one.reason for one in differing}


@pytest.mark.long
def test_who_follows_whom_is_told_by_the_replicas(drill_labs):
    """By where they dial; on the lab of the first drills below."""
    assert sources(drill_labs("chain").lab()) == {"relay": "source", "leaf": "relay"}


@pytest.mark.parametrize(("topology", "name"), ALL)
def test_a_drill_comes_out_as_its_file_says(drilled, topology, name):
    """Every proof there, every verdict the known one, no log with anything that none may hold."""
    result = drilled(topology, name)

    assert surprises(result) == {}
    assert result.doubts == []
    assert all(acted.proofs for acted in result.evidence.acted)


@pytest.mark.long
@pytest.mark.parametrize(("topology", "name"), REPLICATED)
def test_a_drill_of_replicated_disks_comes_out_as_its_file_says(drilled, topology, name):
    """The same of those that take longer."""
    test_a_drill_comes_out_as_its_file_says(drilled, topology, name)


# --- sabotage ---------------------------------------------------------------------------------------------------------


def test_a_kill_that_does_not_kill_is_unknown(drilled, monkeypatch):
    """The container lives on: nothing that was measured counts."""
    monkeypatch.setattr("replication_lab.faults.kill.END_SECONDS", 0.2)
    monkeypatch.setattr(Kill, "end", lambda *_: None)
    result = drilled("single", "kill")

    assert {one.verdict for one in result.judgements} == {Verdict.UNKNOWN}
    assert "server to exit" in result.judgements[0].reason


def test_a_pause_that_does_not_freeze_is_unknown(drilled, monkeypatch):
    """A new connection is answered."""
    monkeypatch.setattr(Node, "pause", lambda *_: None)
    result = drilled("single", "pause")

    assert result.exit_code == 2
    assert "server is frozen: expected no answer" in result.judgements[0].reason


# --- on a lab of another topology -------------------------------------------------------------------------------------


def test_asynchronous_replication_loses_what_was_on_its_way(drilled):
    """In one of three tries at least; and nothing else goes wrong in any of them."""
    results = []
    for seed in SEEDS:
        results.append(drilled("async", "lose-source", seed))
        if results[-1].figures.get("lost"):
            break

    assert [result.doubts for result in results if result.doubts] == []
    assert max(result.figures["lost"] for result in results) > 0
    assert {result.figures[name] for result in results for name in ("phantoms", "duplicates", "diverged")} == {0}
