"""Drills on real servers: a quick one of each topology, and what is promised or known to be lost beyond that."""

import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from replication_lab import replication
from replication_lab.faults.kill import Kill
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.drill_result import not_proved
from replication_lab.model.question.sql_load import transactions
from replication_lab.replication.failover import sources
from replication_lab.runner import drill_set
from replication_lab.witnesses.acts import ContainerWitness
from replication_lab.witnesses.sampled import EVERY_SECONDS
from replication_lab.witnesses.statements_of_others import UNDISTURBED
from replication_lab.world import clock
from replication_lab.world.docker.service import Node
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.packets.namespace import Beside

from tests.lab.witnessed import doubts_of

SEEDS = (7, 8, 9)
# One of most topologies; asynchronous replication loses rows in a test of its own. That of the Galera cluster is in
# test_galera_drills.py, on the cluster of that module; machines with a replicated disk lose their primary in
# test_drbd.py and test_ha.py, on those that are up; semisync-3 loses its source in test_endpoint.py. The drill of slow
# disks is in test_raid_sabotage.py.
QUICK = [
    ("fanout", "lose-source"),
    ("chain", "kill-relay"),
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
    ("async", "break-applier"),
    ("async", "delay-replica"),
    ("async", "switchover"),
    ("async", "upgrade"),
    ("async", "upgrade-and-back"),
    ("async", "upgrade-mysql"),
    ("async", "upgrade-refused"),
    ("async", "new-replica-backup"),
    ("async", "new-replica-clone"),
    ("async", "new-replica-dump"),
    ("async", "new-replica-dump-mysql"),
    ("async", "new-replica-mydumper"),
    ("async", "schema-change-copy"),
    ("async", "schema-change-inplace"),
    ("async", "schema-change-instant"),
    ("async", "schema-change-pt-osc"),
    ("chain", "switchover"),
    ("fanout", "switchover"),
    ("galera", "lose-majority"),
    ("galera", "rolling-restart"),
    ("galera", "upgrade"),
    ("galera", "upgrade-and-back"),
    ("group", "lose-majority"),
    ("group", "multi-primary"),
    ("semisync", "infinite-timeout"),
    ("semisync", "flapping-link"),
    ("semisync", "lose-source-for-good"),
    ("semisync", "lost-acknowledgements"),
    ("semisync", "refuse-broken-replica"),
    ("semisync", "two-failovers"),
    ("semisync-3", "cut-one-link"),
    ("semisync-3", "refuse-broken-replica"),
    ("semisync-3", "refuse-delayed-replica"),
    ("semisync-3", "switchover"),
    ("semisync-3", "switchover-waiting-for-two"),
    ("single", "backup-lock"),
    ("single", "pause"),
    ("single", "memory"),
    ("single", "clock"),
]
# A minute each, with the comparison of both disks.
ROWS = "SELECT COUNT(*) FROM lab.ledger"
UP = ("-n", "black-hole-up", "-t", "timeout", "-a", "timeout=0", "-u")
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


@pytest.mark.long
def test_two_bootstraps_are_two_clusters_and_never_green(drilled):
    """Both acknowledge writes; what the copies hold is not compared any more."""
    result = drilled("galera", "two-bootstraps")
    (told,) = (each for each in result.judgements if each.figure == "recovered")

    assert surprises(result) == {}
    assert told.verdict is Verdict.REFUTED
    assert "two clusters, written separately" in told.reason
    assert "lost" not in result.figures


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

    assert result.exit_code == 3
    assert "server is frozen: expected no answer" in result.judgements[0].reason


def docker(*command):
    """Do something to a container as a program that is not the lab."""
    subprocess.run(["docker", *command], check=True, capture_output=True)


def once_written(lab, act):
    """Do something as soon as clients have written, in a thread: before the drill's fault."""
    source = lab.node(lab.topology.source.name).server().another()

    def wait_and_act():
        clock.wait_until(lambda: "ledger" in str(source.tables()) and source.value(ROWS), "rows", 60)
        act(source)

    threading.Thread(target=wait_and_act).start()


def test_a_killed_node_that_others_start_and_kill_again_is_unknown(drilled):
    """It is dead when it is looked at, both times."""

    def started_and_killed(lab):
        server = str(lab.node("server").container.id)
        docker("start", server)
        docker("kill", server)

    doubts = doubts_of(drilled("single", "kill", meanwhile=started_and_killed))

    assert f"{ContainerWitness.obligation}: at " in doubts
    assert "server: start" in doubts and "server: kill" in doubts


def test_a_node_that_others_slow_down_is_unknown(drilled):
    """A quota that is taken off again leaves no trace in the container's settings."""

    def slowed(lab):
        server = str(lab.node("server").container.id)
        docker("update", "--cpus", "0.5", server)
        docker("update", "--cpus", "2", server)

    assert "server: update" in doubts_of(drilled("single", "pause", meanwhile=slowed))


def test_a_command_that_others_run_in_a_node_is_unknown(drilled):
    """What it does there is not known, and the CPU time that it takes counts as the server's."""

    def run(lab):
        docker("exec", str(lab.node("server").container.id), "sh", "-c", "echo meddled")

    result = drilled("single", "pause", meanwhile=lambda lab: once_written(lab, lambda _: run(lab)), when="pause")

    assert "server: command 'sh -c echo meddled'" in doubts_of(result)


def test_a_durability_that_others_loosen_for_a_moment_is_unknown(drilled):
    """The lab has not set it, and it has its value again when the drill goes on."""

    def loosen(lab):
        for value in (0, 1):
            lab.node("server").server().execute(f"SET GLOBAL innodb_flush_log_at_trx_commit = {value}")
            clock.pause(1)

    doubts = doubts_of(drilled("single", "backup-lock", meanwhile=loosen))

    assert f"{UNDISTURBED}: at " in doubts and "innodb_flush_log_at_trx_commit was 0 on server, after 1" in doubts


def test_commands_of_the_lab_that_look_meanwhile_are_no_interference(drilled, command):
    """From another process: they read in the node's container, or open a client there."""
    ran, drill = [], msgspec.structs.replace(drill_set.load("single", "pause"), before=10)

    def look(lab):
        """All at once: each has to end before the server is paused."""
        words = (("diagnose", "server", "--duration", "1"), ("status",), ("sql", "server", "-e", "SELECT 1"))
        typed = [*((each, "") for each in words), (("sql", "server"), "SELECT 2;")]
        with ThreadPoolExecutor(len(typed)) as pool:
            ran.extend(pool.map(lambda each: command(*each[0], "--lab", lab.name, stdin=each[1]), typed))

    def meanwhile(lab):
        once_written(lab, lambda _: look(lab))

    result = drilled("single", "pause", meanwhile=meanwhile, when="pause", as_drill=drill)

    assert {str(each.args): each.stderr for each in ran if each.returncode} == {}
    assert ran[-1].stdout.split() == ["2", "2"] and result.doubts == []


@pytest.mark.long
@pytest.mark.parametrize("by", ["dump", "mydumper", "backup"])
def test_a_new_replica_that_misses_rows_is_found_and_events_are_off(drilled, drill_labs, by):
    """It replicates and has every GTID; only the comparison of the copies shows it.

    Its events are off, as on any replica.
    """
    drill = msgspec.structs.replace(drill_set.load("async", f"new-replica-{by}"), rows=1000)
    source = drill_labs("async", drill.engine).lab(drill).node("source").server()
    source.execute("CREATE EVENT lab.hourly ON SCHEDULE EVERY 1 HOUR DO SELECT 1")
    statuses = []

    def lose(lab):
        replica = lab.node("replica").server().another()
        replica.execute("SET SESSION sql_log_bin = 0", "DELETE FROM lab.ledger WHERE id = 0 LIMIT 7")
        statuses.append(replica.value("SELECT STATUS FROM information_schema.EVENTS WHERE EVENT_NAME = 'hourly'"))
        replica.close()

    result = drilled("async", drill.name, meanwhile=lose, as_drill=drill)

    (told,) = (each for each in result.judgements if each.figure == "diverged")
    assert (result.doubts, told.verdict, told.measured) == ([], Verdict.REFUTED, 1)
    assert statuses == ["SLAVESIDE_DISABLED"]


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


def test_a_black_hole_that_others_take_off_for_a_moment_is_unknown(drilled):
    """It is there when it is looked at, both times; the proxy lists each change and who asked for it."""

    def taken_off(lab):
        proxy = str(lab.service("toxiproxy").container.id)
        docker("exec", proxy, "/toxiproxy-cli", "toxic", "remove", "-n", "black-hole-up", "source-replica")
        docker("exec", proxy, "/toxiproxy-cli", "toxic", "add", *UP, "source-replica")

    doubts = doubts_of(drilled("async", "black-hole", meanwhile=taken_off))

    assert "no other program changed a link of the lab: at " in doubts
    assert "toxiproxy-cli" in doubts and "DELETE /proxies/source-replica/toxics/black-hole-up" in doubts


def test_replication_past_its_link_is_unknown(drilled):
    """A rule in the replica's own network leads it to the source, although it dials the proxy as before."""

    def led_past(lab):
        (there,), (away,) = lab.service("source").addresses(), lab.service("toxiproxy").addresses()
        port = lab.topology.link("source-replica").port
        Beside(lab.node("replica")).run(
            f"iptables -t nat -A OUTPUT -p tcp -d {away} --dport {port} -j DNAT --to-destination {there}:3306"
        )
        Replica(lab.node("replica").server()).stop()
        Replica(lab.node("replica").server()).start()
        clock.pause(2 * EVERY_SECONDS)

    doubts = doubts_of(drilled("async", "lossy-link", meanwhile=led_past))

    assert "replica read from source past link source-replica" in doubts


ORDERS = transactions(GivenFile("orders.sql", "INSERT INTO orders (item) VALUES ({item:1..9});"))


def without_orders(lab):
    """Have the replica leave out the user's table from now on."""
    replica = lab.node("replica").server()
    Replica(replica).stop()
    replica.execute("SET GLOBAL replicate_ignore_table = 'lab.orders'")
    Replica(replica).start()


@pytest.mark.parametrize("from_the_start", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_users_table_that_a_replica_leaves_out_is_lost_with_its_source(drilled, drill_labs, from_the_start):
    """The ledger's rows of the same transactions arrive, and both copies are equal once the old source was replaced."""
    lab = drill_labs("async").lab()
    lab.node("source").server().execute(
        "CREATE TABLE lab.orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, item INT)",
        "CREATE VIEW lab.every_order AS SELECT * FROM lab.orders",
        "INSERT INTO lab.orders (item) VALUES (1), (2), (3)",
    )
    replication.of(lab).wait_until_caught_up()

    def leave_out(lab):
        if from_the_start:
            without_orders(lab)
        else:
            once_written(lab, lambda _: without_orders(lab))

    result = drilled("async", "lose-source", meanwhile=leave_out, when="lose-source", transactions=ORDERS)
    written, lost = result.figures["acknowledged.source"], result.figures["lost"]

    assert result.doubts == []
    assert lost == written if from_the_start else 0 < lost <= written
    (judged,) = (each for each in result.judgements if each.figure == "lost")
    assert judged.verdict is Verdict.REFUTED
    assert f"replica lacks {result.figures['missing_rows.replica.lab.orders']} rows of lab.orders" in judged.reason
    assert not_proved(result) == []


def test_a_wait_point_that_others_change_is_unknown(drilled):
    """It is changed back before the drill ends."""

    def change(source):
        for value in ("AFTER_SYNC", "AFTER_COMMIT"):
            source.execute(f"SET GLOBAL {source.dialect.semisync_source}_wait_point = {value}")
            clock.pause(2 * EVERY_SECONDS)

    def changed(lab):
        once_written(lab, change)

    doubts = doubts_of(drilled("semisync", "read-before-loss-after-commit", meanwhile=changed, when="read-before"))

    assert "was AFTER_SYNC on source, not AFTER_COMMIT" in doubts


# Two machines are started for it; `make test` does the same to a disk of an array in test_raid_sabotage.
@pytest.mark.long
def test_a_write_cache_that_others_switch_off_before_a_power_cut_is_unknown(drilled):
    """It is on again when the power fails; what was written meanwhile was never at risk."""

    def switch(lab):
        disk = str(lab.service("node1-disk1").container.id)
        for value in ("off", "on"):
            docker("exec", disk, "spindle", "set", f"write_cache={value}")

    result = drilled(
        "drbd", "lose-all-power", meanwhile=lambda lab: once_written(lab, lambda _: switch(lab)), when="lose-all-power"
    )

    assert "another program asked node1-disk1 for set write_cache=off" in doubts_of(result)
    (cut,) = {proof.found for acted in result.evidence.acted for proof in acted.proofs if "disk of node1" in proof.what}
    assert "bytes were not flushed" in cut
