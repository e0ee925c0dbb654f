"""Does each proof fail when what it proves is not so?"""

import threading
from contextlib import closing
from dataclasses import replace

import pymysql
import pytest
from replication_lab.probes import galera, round_trip, semisync
from replication_lab.probes.commit_latency import CommitLatency
from replication_lab.probes.round_trip import RoundTrip, spread
from replication_lab.workloads.inserts import Inserts
from replication_lab.workloads.read_visibility import FirstSeen
from replication_lab.world import catalogue
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync

from tests.fakes import troubles
from tests.fakes.lab import FakeLab
from tests.fakes.link import FakeLink


@pytest.fixture
def lab(fake_world) -> FakeLab:
    """Return the semi-sync pair, its link bare."""
    return FakeLab(fake_world(), catalogue.topology("semisync"), "mariadb")


# --- semi-sync --------------------------------------------------------------------------------------------------------


def watched(lab, meanwhile=lambda: None, wanted="semisync", wait_point="AFTER_SYNC", path="proxy") -> dict[str, bool]:
    """Return the proofs of a load of ten commits by their result, when `meanwhile` happens after the fifth."""
    source, replica = lab.node("source").server(), lab.node("replica").server()
    SemiSync(source).set(wanted == "semisync", wait_point)
    watch = semisync.SemiSyncWatch(source, [replica], wanted, wait_point, path)
    for number in range(10):
        if number == 5:
            meanwhile()
        lab.commit()
    return {proof.what.split(" (")[0]: proof.ok for proof in watch.proofs(10)}


def failed(proofs: dict[str, bool]) -> set[str]:
    return {what for what, ok in proofs.items() if not ok}


ACKNOWLEDGED, STAYED = "semi-sync acknowledged every commit", "semi-sync stayed in the state of the case"
NOT_WAITED, PATH = (
    "no commit waited for a replica's acknowledgement",
    "replica replicates by the path that the case sets",
)
ALONE = "replica is not connected"


def test_an_undisturbed_load_is_proved(lab):
    """All three proofs come out where nothing happened, with and without semi-sync."""
    assert not failed(watched(lab))
    assert not failed(watched(lab, wanted="async"))


def test_a_fall_back_fails_two_proofs(lab):
    """Commits that were not acknowledged, and the fall-back itself."""
    assert failed(watched(lab, lambda: troubles.fall_back(lab))) == {ACKNOWLEDGED, STAYED}


def test_a_fall_back_that_healed_is_still_seen(lab):
    """Status is ON again at the end of the load; the counters tell."""

    def fall_back_and_heal():
        troubles.fall_back(lab)
        lab.commit()
        source = lab.node("source").server()
        source.semisync = replace(source.semisync, active=True)

    assert failed(watched(lab, fall_back_and_heal)) == {ACKNOWLEDGED, STAYED}


def test_switching_off_is_seen(lab):
    """Semi-sync that is switched off during the load stays OFF, and its commits are missing from the acknowledged."""
    assert failed(watched(lab, lambda: troubles.switch_semisync_off(lab))) == {ACKNOWLEDGED, STAYED}


def test_switching_on_is_seen(lab):
    """Semi-sync where none was wanted acknowledges commits that should not have waited."""

    def switch_on():
        SemiSync(lab.node("source").server()).set(True)

    assert failed(watched(lab, switch_on, wanted="async")) == {NOT_WAITED, STAYED}


def test_a_changed_wait_point_is_seen(lab):
    """AFTER_COMMIT where AFTER_SYNC was arranged."""

    def change():
        SemiSync(lab.node("source").server()).set(True, "AFTER_COMMIT")

    assert failed(watched(lab, change)) == {STAYED}


def test_another_path_is_seen(lab):
    """A replica that dials the source itself does not cross the link."""

    def redirect():
        Replica(lab.node("replica").server()).replicate_from("source", 3306)

    assert failed(watched(lab, redirect)) == {PATH}
    assert not failed(watched(lab, path="direct"))


def test_a_stopped_replica_is_seen(lab):
    """Threads that stand still fail the proof of the path; commits are no longer acknowledged."""
    assert failed(watched(lab, Replica(lab.node("replica").server()).stop)) == {ACKNOWLEDGED, PATH}


def test_a_replica_that_should_be_away_is_seen(lab):
    """Without a replica means that its threads stand still."""
    assert failed(watched(lab, wanted="none")) == {ALONE}
    Replica(lab.node("replica").server()).stop()
    assert not failed(watched(lab, wanted="none"))


def test_fewer_commits_acknowledged_than_made_are_seen(lab):
    """Ten acknowledgements do not prove eleven commits."""
    watch = semisync.SemiSyncWatch(
        lab.node("source").server(), [lab.node("replica").server()], "semisync", "AFTER_SYNC", "proxy"
    )
    SemiSync(lab.node("source").server()).set(True, "AFTER_SYNC")
    for _ in range(10):
        lab.commit()

    assert watch.proofs(10)[0].ok and not watch.proofs(11)[0].ok


def test_a_commit_answered_sooner_than_a_round_trip_is_seen(lab):
    """Counters may be right while a commit waited for nothing: its latency tells."""
    source, replica = lab.node("source").server(), lab.node("replica").server()
    watch = semisync.SemiSyncWatch(source, [replica], "semisync", "AFTER_SYNC", "proxy", round_trip_ms=85)

    assert [watch.proofs(0, fastest_ms=ms)[-1].ok for ms in (86.0, 40.0)] == [True, False]


@pytest.mark.parametrize(("engine", "least"), [("mysql", 3), ("mariadb", 10)])
def test_a_group_that_waited_counts_as_one_where_the_server_counts_so(fake_world, engine, least):
    """MySQL acknowledges a group once at AFTER_SYNC: ten commits of four clients are three groups or more."""
    lab = FakeLab(fake_world(), catalogue.topology("semisync"), engine)
    source = lab.node("source").server()
    SemiSync(source).set(True, "AFTER_SYNC")
    watch = semisync.SemiSyncWatch(source, [lab.node("replica").server()], "semisync", "AFTER_SYNC", "proxy", clients=4)
    source.semisync = replace(source.semisync, acknowledged=least)
    assert watch.proofs(10)[0].ok
    source.semisync = replace(source.semisync, acknowledged=least - 1)

    assert not watch.proofs(10)[0].ok


def test_readiness_is_a_commit_that_was_acknowledged(lab, monkeypatch):
    """A status of ON without an acknowledgement is not ready."""
    asked = []
    monkeypatch.setattr(semisync, "wait_until", lambda condition, what, seconds: asked.append(condition()))
    SemiSync(lab.node("source").server()).set(True)
    semisync.wait_until_acknowledged(lab.node("source").server())
    Replica(lab.node("replica").server()).stop()
    semisync.wait_until_acknowledged(lab.node("source").server())

    assert asked == [True, False]


# --- Galera -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(fake_world) -> FakeLab:
    """Return three nodes, their links bare."""
    return FakeLab(fake_world(), catalogue.topology("galera"), "mariadb")


def group_proofs(cluster, meanwhile=lambda: None, commits=10, fastest_ms=None, **expected) -> set[str]:
    """Return the failed proofs of a load of ten commits, when `meanwhile` happens after the fifth."""
    watch = galera.GaleraWatch(list(cluster.servers.values()), **expected)
    for number in range(10):
        if number == 5:
            meanwhile()
        cluster.commit()
    return {proof.what for proof in watch.proofs(commits, fastest_ms) if not proof.ok}


def test_an_undisturbed_cluster_is_proved(cluster):
    """Nothing fails where nothing happened."""
    assert group_proofs(cluster, fastest_ms=86, round_trip_ms=85) == set()


def test_a_node_that_left_fails_the_proofs_of_all(cluster):
    """It is missing itself, and the others are fewer."""
    failed_proofs = group_proofs(cluster, lambda: troubles.leave(cluster))

    assert {f"node{n} stayed in the cluster" for n in (1, 2, 3)} <= failed_proofs


def test_commits_that_the_group_did_not_see_are_noticed(cluster):
    """A client was told of more commits than there were writesets: some went elsewhere."""
    assert group_proofs(cluster, commits=11) == {"every commit was a writeset of the group"}


def test_a_commit_faster_than_the_round_trip_is_noticed(cluster):
    """A commit that waited for the group across 85 ms cannot be answered after 40."""
    assert group_proofs(cluster, fastest_ms=40, round_trip_ms=85) == {"no commit was answered sooner than a round trip"}


def test_flow_control_that_never_paused_is_noticed(cluster):
    """A node that was to be slow and throttled no other was not slow."""
    assert group_proofs(cluster, throttled=True) == {"flow control paused the cluster"}
    assert group_proofs(cluster, lambda: cluster.node("node3").limit_cpu(10_000, 100_000), throttled=True) == set()


# --- round trips and commits ------------------------------------------------------------------------------------------


class Connection:
    """A connection that answers `answers` pings, then is lost."""

    def __init__(self, answers: float):
        self.answers, self.closed = answers, False

    def ping(self, reconnect):
        assert not reconnect, "a connection that comes back would hide that it was ended"
        self.answers -= 1
        if self.answers < 0:
            raise pymysql.err.OperationalError(2013, "Lost connection")

    def close(self):
        self.closed = True


class Upstream:
    """A server that remembers by which address it was dialled."""

    def __init__(self, answers: float):
        self.connection = Connection(answers)

    def connect(self, address, **_options):
        self.address = address
        return self.connection


def test_a_round_trip_goes_through_the_link():
    """The probe dials the link's own port, and hangs up at the end."""
    upstream = Upstream(100)
    with closing(RoundTrip(FakeLink("link", answers=upstream))) as probe:
        assert len(probe.pings(4)) == 4

    assert upstream.address == FakeLink.address and upstream.connection.closed


def test_a_lost_connection_gives_fewer_trips_and_no_error():
    """What did not come back is missing; nothing at all is None."""
    probe = RoundTrip(FakeLink("link", answers=Upstream(2)))

    assert len(probe.pings(5)) == 2
    assert probe.typical() is None


def test_a_load_is_watched_until_it_ends(monkeypatch):
    """Trips are collected while the block runs, and the watcher is gone after it."""
    monkeypatch.setattr(round_trip, "PAUSE_SECONDS", 0)
    enough = threading.Event()

    class Counted(RoundTrip):
        def ping(self):
            trip = super().ping()
            if upstream.connection.answers < 90:
                enough.set()
            return trip

    upstream = Upstream(100)
    probe = Counted(FakeLink("link", answers=upstream))
    with probe.watching() as trips:
        assert enough.wait(5)

    assert len(trips) >= 10
    assert not [thread for thread in threading.enumerate() if thread.name == "watch link"]


def test_watching_ends_with_the_connection():
    """A connection that is ended during the load ends the watch, not the load."""
    with RoundTrip(FakeLink("link", answers=Upstream(0))).watching() as trips:
        pass

    assert trips == []


def test_a_spread_is_smallest_middle_largest_and_count():
    """Nothing read gives no spread."""
    found = spread([3.0, 1.0, 2.0])

    assert (found.min, found.p50, found.max, found.n) == (1.0, 2.0, 3.0, 3)
    assert spread([]) is None


def test_commits_are_timed_one_by_one(lab):
    """As many latencies as commits, each of a statement of its own."""
    source = lab.node("source").server()
    SemiSync(source).set(True)

    assert len(CommitLatency(source).commits(3)) == 3
    assert SemiSync(source).status().acknowledged == 3


class Talked:
    """A server that notes what each of its connections was asked."""

    def __init__(self, said=None, number=0):
        self.said, self.number, self.made = said if said is not None else [], number, 0

    def another(self):
        self.made += 1
        return Talked(self.said, self.made)

    def rows(self, _statement):
        return ["its table is there"]

    def version(self):
        self.said.append((self.number, "connected"))

    def execute(self, _statement):
        self.said.append((self.number, "committed"))

    def close(self):
        self.said.append((self.number, "closed"))


def test_commits_at_once_have_a_connection_each():
    """All are connected before the first commits, so that none waits for a handshake."""
    source = Talked()

    assert len(CommitLatency(source).commits_at_once(2)) == 2
    assert [what for _, what in source.said] == ["connected"] * 2 + ["committed"] * 2 + ["closed"]
    assert {number for number, what in source.said if what == "committed"} == {0, 1}
    assert source.said[-1] == (1, "closed")


# --- workloads --------------------------------------------------------------------------------------------------------


def test_the_rate_is_of_all_clients_from_the_first_statement_to_the_last_answer(lab, monkeypatch):
    """Clients that queue behind each other count as they were served, not each at the rate of its own luck."""
    printed = "sysbench says hello\nclient 7.0 9.0 1000000 1000000\nclient 8.0 10.0 250000 250000 250000 250000\n"
    monkeypatch.setattr(lab.programs, "run", lambda *_: printed)
    outcome = Inserts(clients=2, rows=6).run(lab, seed=1)

    assert (outcome.commits, outcome.throughput) == (6, 6 / 3)
    assert outcome.figures["latency_p50_ms"] == 250 and outcome.figures["latency_min_ms"] == 250
    assert len(outcome.samples["latency_ms"]) == 6


def test_a_load_that_committed_nothing_is_refused_with_what_it_said(lab, monkeypatch, refused):
    """No line of a client is an error that shows the end of the output."""
    monkeypatch.setattr(lab.programs, "run", lambda *_: "FATAL: no such table")

    assert "FATAL: no such table" in refused(Inserts(rows=1).run, lab, seed=1).found


@pytest.mark.parametrize(
    ("settings", "events", "time"),
    [
        ({"rows": 10}, "--events=10", "--time=0"),
        ({"seconds": 2}, "--events=0", "--time=2"),
        ({"rows": 10, "seconds": 9}, "--events=10", "--time=9"),
    ],
)
def test_a_load_is_so_many_rows_or_so_many_seconds(lab, monkeypatch, settings, events, time):
    """Where both are given sysbench ends with what comes first; the seed is handed on."""
    commands = []
    monkeypatch.setattr(lab.programs, "run", lambda _, command: commands.append(command) or "client 1.0 2.0 5 5\n")
    Inserts(**settings).run(lab, seed=42)

    assert {events, time, "--rand-seed=42", "--threads=1"} <= set(commands[0])


@pytest.mark.parametrize(("wait_point", "early"), [("AFTER_SYNC", 0), ("AFTER_COMMIT", 8)])
def test_who_sees_a_row_first_depends_on_the_wait_point(lab, latency, wait_point, early):
    """With AFTER_COMMIT others read a row a round trip before its writer is answered; with AFTER_SYNC never."""
    for body in latency(42, 43).bodies:
        lab.link("source-replica").add(body)
    SemiSync(lab.node("source").server()).set(True, wait_point)
    figures = FirstSeen(rows=8).run(lab, 1).figures

    assert (figures["trials"], figures["seen_early"]) == (8, early)
    assert abs(figures["seen_ahead_ms"] - (86 if early else 0)) < 1
