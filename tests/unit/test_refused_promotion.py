"""A promotion that would lose something is refused before anything is changed; against servers that are only state."""

import io
import time

import pymysql
import pytest
from replication_lab.cli import output
from replication_lab.model.core.errors import LabError
from replication_lab.replication import failover, fence
from replication_lab.world import lab_files
from replication_lab.world.mysql import tls
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.replica import Progress
from replication_lab.world.mysql.server import Server
from rich.console import Console

from tests.fakes import standing
from tests.fakes.connection import PASSWORDS, FakeConnection
from tests.fakes.standing import Node, Standing

nodes_answer, lab = standing.nodes_answer, standing.lab


def untouched(lab):
    return not any(node.told for node in lab.nodes.values()) and set(lab.files.values()) <= {b""}


def test_a_replica_that_is_behind_is_refused_before_anything_is_changed(lab, refused):
    """With what it lacks."""
    lab.nodes["source"].has = "0-1-12"
    error = refused(failover.failover, lab, "near")

    assert "near is behind: source has 2 transactions: 0-1-11 to 0-1-12" in error.found
    assert "--allow-data-loss" in error.next_step
    assert untouched(lab)


def test_what_is_committed_until_the_fence_stands_is_missed_too(lab, refused, monkeypatch):
    """The fence is taken down again."""
    close = fence.Fence.close

    def commit_first(self):
        lab.nodes["source"].has = "0-1-11"
        return close(self)

    monkeypatch.setattr(fence.Fence, "close", commit_first)

    assert "source has 1 transaction: 0-1-11" in refused(failover.failover, lab, "near").found
    assert lab.nodes["source"].told == [{"read_only": 1}, {"read_only": 0}]
    assert set(lab.files.values()) == {b""}
    assert lab.nodes["near"].told == []


def test_what_a_replica_has_received_and_not_applied_keeps_it_from_being_promoted(lab, refused):
    """With the count, the cause and the statement that applies it; nothing is changed."""
    lab.nodes["near"].got, lab.nodes["near"].applying = "0-1-12", False
    lab.nodes["source"].silent = True
    error = refused(failover.failover, lab, "near")

    assert "the applier is stopped; 2 transactions received and not applied: 0-1-11 to 0-1-12" in error.found
    assert './lab sql near -e "START SLAVE SQL_THREAD"; or ./lab failover near --allow-data-loss' in error.next_step
    assert untouched(lab)


def test_what_was_received_is_kept_in_mind_when_its_relay_log_is_gone(lab, refused):
    """A second failover is refused like the first, until it is applied; one with loss counts it and ends that."""
    lab.nodes["source"].silent = True
    lab.nodes["near"].got = "0-1-12"
    refused(failover.failover, lab, "near")
    lab.nodes["near"].got = ""

    assert "2 transactions received and not applied" in refused(failover.failover, lab, "near").found
    done = failover.failover(lab, "near", allow_data_loss=True)
    assert (done.lost, "0-1-11 to 0-1-12" in done.lacks) == (2, True)
    assert not list(lab_files.FOLDER.glob(f"*{lab_files.RECEIVED}"))


def test_a_loss_is_counted_once_though_several_nodes_have_it(lab):
    """The source and a replica have the same two transactions, one of which the new source has received."""
    lab.nodes["near"].got = "0-1-11"
    lab.nodes["source"].has = lab.nodes["far"].has = "0-1-12"

    assert failover.failover(lab, "near", allow_data_loss=True).lost == 2


@pytest.mark.parametrize(("waits", "container"), [(True, "running"), (False, "paused")])
def test_a_source_whose_commits_wait_or_that_is_frozen_is_killed_and_started_as_read_only(lab, waits, container):
    """A dead process confirms no commit; the fence is in its files before it starts again."""
    source = lab.nodes["source"]
    source.waits, source.container = waits, container
    done = failover.failover(lab, "near")

    assert source.told == ["killed", "started"] and source.read_only
    assert "source" in done.fenced and "killed and starts again as read-only" in done.fenced
    said = io.StringIO()
    output.say(Console(file=said, width=140), "promoted", done=done)
    assert done.fenced in said.getvalue()


# What time it is, with the times before.
NOW = [100.0]


class Slow(FakeConnection):
    """A connection on which each answer takes almost as long as the whole fence may."""

    def __init__(self, until=None, **options):
        super().__init__({"SHOW": [{"Variable_name": "read_only", "Value": "OFF"}]})
        self._until, self._seconds = until, options["read_timeout"]

    def execute(self, statement):
        ends = min(time.monotonic() + self._seconds, self._until or float("inf"))
        NOW.append(min(time.monotonic() + 0.9 * fence.ANSWER_SECONDS, ends))
        if time.monotonic() >= ends:
            raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query (timed out)")
        return super().execute(statement)


def test_a_source_each_of_whose_answers_is_slow_is_fenced_as_soon_as_one_that_is_frozen(lab, monkeypatch):
    """The time is one for the connection and all statements; then the server is killed."""
    source = Server("source", ("127.0.0.1", 1), dialects()["mariadb"], PASSWORDS)
    monkeypatch.setattr(time, "monotonic", lambda: NOW[-1])
    monkeypatch.setattr(tls, "TlsConnection", Slow)
    monkeypatch.setattr(lab, "server", lambda _name: source)
    began, standing = NOW[-1], fence.Fence(lab, "source")
    why = standing.close()

    assert NOW[-1] - began == pytest.approx(fence.ANSWER_SECONDS)
    standing.restart(why)
    assert "source did not answer: it was killed and starts again as read-only" in standing.said


def test_a_commit_that_waits_and_that_no_replica_has_received_is_not_given_up(lab, refused, monkeypatch):
    """MySQL does not count it as executed; the source's log is longer than what the replica has received."""
    lab.nodes["source"].waits = True
    monkeypatch.setattr(Node, "progress", lambda self: Progress(("bin.1", 100), ("bin.1", 100), "", None))
    monkeypatch.setattr(BinaryLog, "end", lambda self: ("bin.1", 200))

    assert "commits wait on source, and near has not received them" in refused(failover.failover, lab, "near").found
    assert "killed" not in lab.nodes["source"].told
    assert "killed" in failover.failover(lab, "near", allow_data_loss=True).fenced


@pytest.mark.parametrize("container", ["running", "paused"])
def test_a_relay_that_was_read_only_before_stays_so_when_a_failover_is_refused(refused, lab, container):
    """Its leaf would have been promoted; the fence takes back only what it has set."""
    chain = Standing("chain")
    chain.nodes["relay"].container = container
    chain.nodes["leaf"].stuck = LabError("its applier has stopped", "one that runs")
    refused(failover.failover, chain, "leaf")

    assert chain.nodes["relay"].read_only


def test_a_fenced_source_that_does_not_come_back_is_said_not_to_serve(lab, monkeypatch):
    """The engine refuses to start it: it is fenced all the same, and nothing untrue is said."""

    def refuse(self, node):
        raise LabError(f"the engine cannot start {node}", "an engine that starts it")

    lab.nodes["source"].waits = True
    monkeypatch.setattr(type(lab), "start_again", refuse)
    fenced = failover.failover(lab, "near").fenced

    assert "it was killed, and does not serve again (the engine cannot start source)" in fenced
