"""Promotion and rejoining, and the errors where they are refused; against servers that are only state."""

import io

import pytest
from replication_lab.cli import output
from replication_lab.model.core.errors import LabError
from replication_lab.replication import failover, fence
from replication_lab.replication.source_replica import Followers
from replication_lab.world import clock
from rich.console import Console

from tests.fakes import standing
from tests.fakes.standing import Standing

nodes_answer, lab = standing.nodes_answer, standing.lab


def test_each_replica_is_found_with_its_source(lab):
    """By the port that it dials, which is a link's."""
    assert failover.sources(lab) == {"far": "source", "near": "source"}


def test_roles_and_links_are_those_of_who_follows_whom(lab):
    """A promoted replica is the source, the old one alone; one that does not answer is what the topology made it."""
    promoted = {"source": "", "near": "", "far": "near"}

    assert failover.roles(lab, promoted) == {"source": "alone", "near": "source", "far": "replica"}
    assert failover.roles(lab, {"near": "", "far": "near"})["source"] == "source"
    assert failover.links(lab, promoted) == [("near-far", "near", "far")]
    assert {name for name, _, _ in failover.links(lab, {"source": ""})} == {"source-far", "source-near"}


def test_a_promoted_replica_takes_writes_and_the_others_follow_it(lab):
    """Over a new link, with the slower end's toxics; the old source is fenced before and after."""
    done = failover.failover(lab, "near")

    assert (done.old, done.source, done.repointed, done.lacks) == ("source", "near", ["far"], "")
    assert lab.nodes["near"].told == ["stop following", {"read_only": 0}]
    port = int(lab.toxiproxy.known["near-far"]["listen"].rpartition(":")[2])
    assert lab.nodes["far"].told == ["stop following", ("follow", port)]
    assert ("near-far", "wan-85ms-down") in lab.toxiproxy.toxics
    assert lab.nodes["source"].told == [{"read_only": 1}]
    assert b"read_only = 1" in lab.files["source", fence.FENCES[0]]
    assert lab.files["near", failover.ROLE] == b"--read-only=0\n"


def test_an_old_source_that_was_promoted_itself_starts_as_read_only_too(lab, refused):
    """The options of its role, which override every file, say so; those of before are back if it stays the source."""
    role = b"--read-only=0\n--loose-x=1\n"
    lab.files["source", failover.ROLE] = role
    lab.nodes["near"].stuck = LabError("its applier has stopped", "one that runs")
    refused(failover.failover, lab, "near")
    assert lab.files["source", failover.ROLE] == role

    lab.nodes["near"].stuck = None
    failover.failover(lab, "near")

    assert lab.files["source", failover.ROLE] == b"--read-only=1\n--loose-x=1\n"


@pytest.mark.parametrize(("waits", "on"), [(True, 1), (False, 0)])
def test_a_role_in_semi_sync_says_which_side_a_server_starts_as(waits, on):
    """A source without replicas would let each commit wait for the timeout."""
    lab = Standing("semisync")
    replica = lab.node("replica").server()
    failover.set_role(lab, replica, source=True, waits=waits)
    as_source = lab.files["replica", failover.ROLE].decode().splitlines()
    failover.set_role(lab, replica, source=False)
    as_replica = lab.files["replica", failover.ROLE].decode().splitlines()
    waiting, acknowledging = replica.dialect.semisync_source, replica.dialect.semisync_replica

    assert as_source == ["--read-only=0", f"--loose-{waiting}_enabled={on}", f"--loose-{acknowledging}_enabled=0"]
    assert as_replica == ["--read-only=1", f"--loose-{waiting}_enabled=0", f"--loose-{acknowledging}_enabled=1"]


@pytest.mark.parametrize("ended_by", [LabError("its applier has stopped", "one that runs"), KeyboardInterrupt()])
def test_a_replica_that_cannot_apply_what_it_has_is_not_promoted_and_the_source_goes_on(lab, ended_by):
    """Its applier has stopped, or the wait was interrupted: a fence without a new source would leave no source."""
    lab.nodes["near"].stuck = ended_by
    with pytest.raises(type(ended_by)):
        failover.failover(lab, "near")

    assert lab.nodes["source"].told == [{"read_only": 1}, {"read_only": 0}]
    assert set(lab.files.values()) == {b""}


def test_a_replica_behind_another_one_is_refused_though_the_source_is_dead(lab, refused):
    """The most advanced one has to go first."""
    lab.nodes["source"].silent = True
    lab.nodes["far"].has = "0-1-11"

    assert "far has 1 transaction: 0-1-11" in refused(failover.failover, lab, "near").found
    assert failover.failover(lab, "far").repointed == ["near"]


def test_a_replica_that_is_behind_is_promoted_where_that_is_asked_for(lab):
    """What is lost is said."""
    lab.nodes["source"].has = "0-1-12"

    assert failover.failover(lab, "near", allow_data_loss=True).lacks == "source has 2 transactions: 0-1-11 to 0-1-12"


def test_a_replica_that_is_ahead_of_the_new_source_follows_nobody(lab, refused):
    """The new source could not send it what comes after; what it has alone is named, and discarded on request only."""
    lab.nodes["source"].silent = True
    lab.nodes["far"].has = "0-1-12"
    done = failover.failover(lab, "near", allow_data_loss=True)

    assert (done.repointed, done.ahead) == ([], {"far": "2 transactions: 0-1-11 to 0-1-12"})
    assert lab.nodes["far"].told == ["stop following"]
    said = io.StringIO()
    output.say(Console(file=said, width=140), "promoted", done=done)
    assert "far was not repointed: it has 2 transactions" in said.getvalue()
    assert "./lab rejoin far --discard-errant" in said.getvalue()
    assert "far has 2 transactions" in refused(failover.rejoin, lab, "far").found


def test_what_a_replica_has_received_and_not_applied_counts_too(lab, refused):
    """The new source lacks it; that replica stays as it is, until its own transactions are discarded on request."""
    lab.nodes["far"].got = "0-1-11"
    error = refused(failover.failover, lab, "near")

    assert "near is behind: far has 1 transaction: 0-1-11" in error.found
    done = failover.failover(lab, "near", allow_data_loss=True)
    assert done.left == {"far": "the applier is stopped; 1 transaction received and not applied: 0-1-11"}
    assert lab.nodes["far"].told == [], "its relay log would be gone"
    assert "far has 1 transaction: 0-1-11" in refused(failover.rejoin, lab, "far").found
    assert lab.nodes["far"].told == []


def test_a_replica_that_cannot_be_repointed_is_named(lab):
    """The new source serves; the broken one can be taken back once it is repaired."""
    lab.nodes["far"].stuck = LabError("far's applier has stopped", "one that runs")
    done = failover.failover(lab, "near")

    assert (done.repointed, done.left) == ([], {"far": "far's applier has stopped"})
    assert lab.nodes["near"].told == ["stop following", {"read_only": 0}]
    said = io.StringIO()
    output.say(Console(file=said, width=140), "promoted", done=done)
    assert "far was not repointed: far's applier has stopped" in said.getvalue()
    lab.nodes["far"].stuck = None
    assert failover.rejoin(lab, "far").source == "near"


def test_who_follows_nobody_cannot_be_promoted(lab, refused):
    """Nor a name that is none, nor a node of a topology without source and replicas, nor one without GTIDs."""
    assert "source is not a replica" in refused(failover.failover, lab, "source").found
    assert "unknown node" in refused(failover.failover, lab, "nera").found
    for other in ("galera", "group", "drbd", "drbd-ha"):
        error = refused(failover.failover, Standing(other), "node1")
        assert "no source and replicas" in error.found and error.next_step
    lab.engine = "mysql-5.5"
    assert "no GTIDs" in refused(failover.failover, lab, "near").found


def promoted(lab, errant=""):
    """Return the lab after its source has died, near was promoted and the source started again."""
    lab.nodes["source"].silent = True
    failover.failover(lab, "near")
    lab.nodes["source"].silent = False
    lab.nodes["source"].has = errant or "0-1-10"
    lab.nodes["near"].has = "0-1-10,0-3-15"
    lab.nodes["source"].told.clear()


def test_an_old_source_without_rows_of_its_own_follows_the_new_one(lab):
    """From where its own log ends; it stays read-only."""
    promoted(lab)
    done = failover.rejoin(lab, "source")

    assert (done.node, done.source, done.discarded) == ("source", "near", "")
    port = int(lab.toxiproxy.known["near-source"]["listen"].rpartition(":")[2])
    assert lab.nodes["source"].told == [{"read_only": 1}, "resume", ("follow", port)]


def test_errant_transactions_are_named_and_nothing_is_done(lab, refused):
    """They are discarded on request only."""
    promoted(lab, errant="0-1-13")
    error = refused(failover.rejoin, lab, "source")

    assert "source has 3 transactions: 0-1-11 to 0-1-13, which near lacks" in error.found
    assert "--discard-errant" in error.next_step
    assert lab.nodes["source"].told == []


def test_errant_transactions_are_discarded_where_that_is_asked_for(lab, monkeypatch):
    """The node's data are the source's then."""
    promoted(lab, errant="0-1-13")
    monkeypatch.setattr(failover, "clone", lambda source, target: f"as {source.name}")
    done = failover.rejoin(lab, "source", discard_errant=True)

    assert done.discarded == "3 transactions: 0-1-11 to 0-1-13"
    assert ("begin at", "as near") in lab.nodes["source"].told


def test_who_follows_already_cannot_come_back(lab, refused):
    """Nor can a node rejoin if its source is ambiguous: two servers accept writes, or none."""
    assert "far already replicates from source" in refused(failover.rejoin, lab, "far").found
    lab.nodes["far"].port = lab.nodes["near"].port = None
    assert "no node could be the source of source" in refused(failover.rejoin, lab, "source").found
    lab.nodes["far"].read_only = lab.nodes["near"].read_only = False
    assert "far, near could be the source of source" in refused(failover.rejoin, lab, "source").found


def test_a_semisync_pair_stays_semisynchronous(monkeypatch):
    """The new source waits, the old one acknowledges."""
    monkeypatch.setattr(clock, "wait_until", lambda condition, *_, **__: condition())
    lab = Standing("semisync")
    failover.failover(lab, "replica")
    failover.rejoin(lab, "source")

    assert "semi-sync True" in lab.nodes["replica"].told
    told = lab.nodes["source"].told
    assert told.index("semi-sync False") < told.index("acknowledge"), "its applier would wait for a replica of its own"


@pytest.mark.parametrize(("active", "told"), [(False, ["semi-sync False", "semi-sync True"]), (True, [])])
def test_only_a_source_that_fell_back_is_switched_off_and_on(active, told):
    """Under load it would never wait again by itself; one that waits must not answer a commit without a replica."""
    lab = Standing("semisync")
    source = lab.node("source").server()
    source.acknowledged = active

    failover.wait_for_replicas(lab, source)

    assert source.told == told


def test_a_failover_that_ended_halfway_can_be_repeated(lab, refused):
    """The connection is lost once the replica has stopped: it is a replica still, and the old source is fenced."""
    lab.nodes["near"].waits = True
    assert "lock wait timeout" in refused(failover.failover, lab, "near").found
    lab.nodes["near"].waits = False

    assert failover.failover(lab, "near").source == "near"
    assert not lab.nodes["near"].read_only and lab.nodes["source"].read_only


def test_in_a_drill_all_rows_come_from_the_new_source_at_the_end(lab):
    """Clients write there; where no node answers, they write where the topology says."""
    kind = Followers(lab)
    lab.nodes["source"].silent = True
    done = kind.take_over_after_loss("near")
    lab.nodes["source"].silent = False
    kind.take_back("source", discard_errant=True)

    assert kind.holders() == {"source": "near", "far": "near", "near": ""}
    assert (done.lacks, done.replaced) == ("", ["source"])
    assert failover.sources(lab) == {"source": "near", "far": "near"} and kind.written_at() == "near"
    for node in lab.nodes.values():
        node.silent = True
    assert kind.arrangement()[0] == {"source": "source", "near": "replica", "far": "replica"}
    assert kind.written_at() == "source"


def test_in_a_drill_a_replica_that_is_ahead_is_taken_back_like_the_old_source(lab, monkeypatch):
    """It is the only one with its rows, which are lost; until then it has no source."""
    monkeypatch.setattr(failover, "clone", lambda source, target: f"as {source.name}")
    kind = Followers(lab)
    lab.nodes["source"].silent, lab.nodes["far"].has = True, "0-1-11"
    done = kind.take_over_after_loss("near")
    assert "far has 1 transaction" in done.lacks and done.replaced == ["source", "far"]
    lab.nodes["source"].silent = False
    assert "far" not in failover.sources(lab)
    for name in done.replaced:
        kind.take_back(name, discard_errant=True)

    assert kind.holders() == {"source": "near", "far": "near", "near": ""}
    assert failover.sources(lab) == {"source": "near", "far": "near"}
