"""A replica takes its source's place and the old source comes back, on real servers of each GTID dialect."""

import pytest
from replication_lab import replication
from replication_lab.lab import status, up
from replication_lab.model.core.errors import LabError
from replication_lab.probes.commit_latency import TABLE
from replication_lab.probes.semisync import wait_until_acknowledged
from replication_lab.replication import failover
from replication_lab.world import clock, signals
from replication_lab.world.docker import images, project
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync

# One of each dialect that knows GTIDs.
OTHERS = [pytest.param(engine, marks=pytest.mark.long) for engine in ("mysql-8.0", "mysql-5.7")]
ENGINES = ["mariadb", *OTHERS]
LINK = "source-replica"


@pytest.fixture
def pair(new_lab, request):
    """Yield a source and an asynchronous replica beside it."""
    images.ensure(up.image_names(request.param))
    lab = new_lab("async", request.param, toxics={LINK: "lan"})
    yield lab
    with signals.signals_held():
        lab.down()


def count(lab, node):
    return lab.node(node).server().value(f"SELECT COUNT(*) FROM {TABLE}")


def write(lab, node, rows):
    """Insert one row a transaction; the table exists since the lab was proved."""
    lab.node(node).server().execute(*[f"INSERT INTO {TABLE} (at) VALUES (0)"] * rows)


@pytest.mark.parametrize("pair", ENGINES, indirect=True)
def test_a_planned_failover_loses_nothing_and_the_old_source_follows(pair):
    """The source fenced, the replica level with it, the roles changed, rows flowing the other way."""
    write(pair, "source", 5)

    done = failover.failover(pair, "replica")
    back = failover.rejoin(pair, "source")
    write(pair, "replica", 3)
    Replica(pair.node("source").server()).wait_for(BinaryLog(pair.node("replica").server()).position())

    assert (done.old, done.source, done.lacks) == ("source", "replica", "")
    assert (back.source, back.discarded) == ("replica", "")
    assert count(pair, "source") == count(pair, "replica")
    with pytest.raises(LabError, match="read-only"):
        pair.node("source").server().as_application().execute("CREATE TABLE lab.refused (id INT)")


@pytest.mark.long
@pytest.mark.parametrize("pair", ["mariadb"], indirect=True)
def test_a_lab_is_shown_as_it_is_after_a_failover(pair):
    """The roles changed, the link turned round, the promoted replica healthy, the old source told apart."""
    failover.failover(pair, "replica")
    alone = status.view(pair)
    failover.rejoin(pair, "source")
    pair.refresh()
    turned = status.view(pair)

    assert {node.name: node.role for node in alone.nodes} == {"source": "alone", "replica": "alone"}
    assert {node.name: node.role for node in turned.nodes} == {"source": "replica", "replica": "source"}
    assert [(link.source, link.target, link.toxics) for link in turned.links] == [("replica", "source", ["wan-85ms"])]
    assert [link.round_trip_ms > 80 for link in turned.links] == [True]
    assert all(proof.ok for proof in up.set_toxics(pair, {"replica-source": "none"}))
    assert [(link.toxics, link.round_trip_ms < 40) for link in status.view(pair).links] == [([], True)]
    answer = pair.node("replica").container.exec_run(["bash", "/usr/local/bin/lab-health"])
    assert (answer.exit_code, answer.output.decode().strip()) == (
        0,
        "serving, promoted: it has no source",
    )


@pytest.mark.long
@pytest.mark.parametrize("pair", ENGINES, indirect=True)
def test_a_promoted_replica_that_starts_again_goes_on_as_the_source(pair):
    """Its Compose file says read-only; the failover has overridden that."""
    failover.failover(pair, "replica")
    pair.node("replica").kill()
    clock.wait_until(lambda: pair.node("replica").state()[0] == "exited", "the replica's end")
    pair.node("replica").start_again()
    clock.wait_until(lambda: pair.node("replica").answers(), "the replica")

    pair.node("replica").server().as_application().execute("CREATE TABLE lab.accepted (id INT)")


@pytest.mark.long
@pytest.mark.parametrize("engine", ["mariadb", OTHERS[0]])
def test_a_semi_synchronous_pair_that_changed_places_keeps_them_when_both_start_again(new_lab, engine):
    """The Compose file has the roles of source and replica the other way round."""
    images.ensure(up.image_names(engine))
    pair = new_lab("semisync", engine, toxics={LINK: "lan"})
    try:
        failover.failover(pair, "replica")
        failover.rejoin(pair, "source")
        for node in ("replica", "source"):
            pair.node(node).kill()
            clock.wait_until(lambda node=node: pair.node(node).state()[0] == "exited", f"the end of {node}")
            pair.node(node).start_again()
            clock.wait_until(lambda node=node: pair.node(node).answers(), node)
        pair.refresh()
        wait_until_acknowledged(pair.node("replica").server(), 30)
        before = SemiSync(pair.node("replica").server()).status()
        write(pair, "replica", 3)
        after = SemiSync(pair.node("replica").server()).status()

        assert after.active and after.acknowledged - before.acknowledged == 3
        assert not SemiSync(pair.node("source").server()).status().enabled
    finally:
        with signals.signals_held():
            pair.down()


@pytest.mark.long
@pytest.mark.parametrize("pair", ENGINES, indirect=True)
def test_an_old_sources_errant_transactions_are_named_and_discarded_on_request(pair):
    """Its link is cut, it commits, it dies: the replica takes over without those rows."""
    pair.link(LINK).cut()
    kept = count(pair, "replica")
    write(pair, "source", 3)
    assert count(pair, "source") == kept + 3

    pair.node("source").kill()
    clock.wait_until(lambda: pair.node("source").state()[0] == "exited", "the source's end")
    failover.failover(pair, "replica")
    pair.link(LINK).enable()
    pair.node("source").start_again()
    with pytest.raises(LabError, match="source has 3 transactions") as refusal:
        failover.rejoin(pair, "source")
    assert count(pair, "source") == kept + 3

    done = failover.rejoin(pair, "source", discard_errant=True)
    write(pair, "replica", 2)
    Replica(pair.node("source").server()).wait_for(BinaryLog(pair.node("replica").server()).position())

    assert "--discard-errant" in refusal.value.next_step
    assert done.discarded.startswith("3 transactions: ")
    assert count(pair, "source") == count(pair, "replica") == kept + 2
    assert pair.node("source").server().checksum(TABLE) == pair.node("replica").server().checksum(TABLE)


# What a shop has besides its tables; a view comes before the one that it reads, by their names.
SHOP = (
    "CREATE DATABASE shop CHARACTER SET latin1",
    "CREATE TABLE shop.orders (id INT AUTO_INCREMENT PRIMARY KEY, item INT, at TIMESTAMP(3) NULL)",
    "ALTER TABLE shop.orders ADD COLUMN twice INT AS (item * 2) AFTER item",
    "CREATE TABLE shop.log (text VARCHAR(9))",
    "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
    "INSERT INTO shop.orders (id, item, at) VALUES (0, 1, '2030-10-27 01:30:00.125'), (7, 2, NULL)",
    "CREATE USER app@'%' IDENTIFIED BY 'a secret'",
    "GRANT SELECT, INSERT ON shop.* TO app@'%'",
    "CREATE DEFINER = app@'%' PROCEDURE shop.sell(IN wanted INT) INSERT INTO shop.orders (item) VALUES (wanted)",
    "GRANT EXECUTE ON PROCEDURE shop.sell TO app@'%'",
    "CREATE FUNCTION shop.half(many INT) RETURNS INT DETERMINISTIC RETURN many / 2",
    "CREATE VIEW shop.z_all AS SELECT id, shop.half(item) AS half FROM shop.orders",
    "CREATE DEFINER = app@'%' SQL SECURITY INVOKER VIEW shop.a_few AS SELECT * FROM shop.z_all WHERE id > 1",
    "CREATE TABLE shop.gone (id INT)",
    "CREATE VIEW shop.broken AS SELECT * FROM shop.gone",
    "DROP TABLE shop.gone",
    "CREATE TRIGGER shop.noted AFTER INSERT ON shop.orders FOR EACH ROW"
    " INSERT INTO shop.log VALUES (CONCAT(NEW.item, '%s'))",
    "CREATE EVENT shop.empties ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01' ENABLE DO DELETE FROM shop.log",
)
PARTS = {
    "routines": "SELECT ROUTINE_NAME, DEFINER, SQL_MODE, ROUTINE_DEFINITION FROM information_schema.ROUTINES",
    "triggers": "SELECT TRIGGER_NAME, DEFINER, SQL_MODE, ACTION_STATEMENT FROM information_schema.TRIGGERS",
    "views": "SELECT TABLE_NAME, DEFINER, VIEW_DEFINITION FROM information_schema.VIEWS",
    "events": "SELECT EVENT_NAME, DEFINER, SQL_MODE, EVENT_DEFINITION FROM information_schema.EVENTS",
}


@pytest.mark.parametrize("pair", ENGINES, indirect=True)
def test_an_old_source_gets_all_that_the_new_one_has(pair):
    """Triggers, routines, views, accounts and privileges too; an event does not run on a replica."""
    new, old = pair.node("replica").server(), pair.node("source").server()
    pair.link(LINK).cut()
    old.execute("CREATE DATABASE errant", "CREATE USER errant@'%'")
    pair.node("source").kill()
    clock.wait_until(lambda: pair.node("source").state()[0] == "exited", "the source's end")
    failover.failover(pair, "replica", allow_data_loss=True)
    new.execute(*SHOP)
    pair.link(LINK).enable()
    pair.node("source").start_again()
    old = pair.node("source").server()

    failover.rejoin(pair, "source", discard_errant=True)

    parts = {name: f"{query} WHERE {name[:-1]}_SCHEMA = 'shop' ORDER BY 1" for name, query in PARTS.items()}
    parts["views"] = f"{PARTS['views']} WHERE TABLE_SCHEMA = 'shop' AND TABLE_NAME <> 'broken' ORDER BY 1"
    assert {name: old.rows(query) for name, query in parts.items()} == {
        name: new.rows(query) for name, query in parts.items()
    }
    assert [len(old.rows(query)) for query in parts.values()] == [2, 1, 2, 1]
    assert old.rows("SHOW GRANTS FOR app@'%'") == new.rows("SHOW GRANTS FOR app@'%'")
    assert old.value("SELECT COUNT(*) FROM mysql.user WHERE User = 'errant'") == 0
    assert "latin1" in str(old.rows("SHOW CREATE DATABASE shop"))
    assert old.value("SELECT STATUS FROM information_schema.EVENTS") not in ("ENABLED", "DISABLED")
    new.execute("CALL shop.sell(5)")
    Replica(old).wait_for(BinaryLog(new).position())
    assert replication.of(pair).difference(old, new) == ""
    assert [server.value("SELECT COUNT(*) FROM shop.log WHERE text = '5%s'") for server in (new, old)] == [1, 1]
    assert old.rows("SELECT * FROM shop.a_few") == new.rows("SELECT * FROM shop.a_few")
    assert old.value("SELECT COUNT(*) FROM shop.orders WHERE id = 0 AND twice = 2 AND at IS NOT NULL") == 1


@pytest.mark.parametrize("pair", ["mariadb"], indirect=True)
def test_a_replica_that_is_behind_is_refused_and_the_source_serves_on(pair, monkeypatch):
    """It names what would be lost; the fence is down again."""
    monkeypatch.setattr(failover, "CATCH_UP_SECONDS", 0.5)
    pair.link(LINK).cut()
    write(pair, "source", 2)

    with pytest.raises(LabError, match="replica is behind: source has 2 transactions"):
        failover.failover(pair, "replica")
    pair.node("source").server().as_application().execute("CREATE TABLE lab.accepted (id INT)")

    done = failover.failover(pair, "replica", allow_data_loss=True)
    # The table, and the two rows.
    assert "3 transactions" in done.lacks


@pytest.mark.parametrize("pair", ["mariadb"], indirect=True)
def test_what_a_second_failover_loses_is_counted_from_where_the_new_sources_numbers_begin(pair, monkeypatch):
    """MariaDB's numbers go on under another server's id; the first source has seen none of them."""
    monkeypatch.setattr(failover, "CATCH_UP_SECONDS", 0.5)
    failover.failover(pair, "replica")
    failover.rejoin(pair, "source")
    pair.link("replica-source").cut()
    write(pair, "replica", 3)

    with pytest.raises(LabError, match="source is behind: replica has 3 transactions: "):
        failover.failover(pair, "source")
    done = failover.failover(pair, "source", allow_data_loss=True)
    write(pair, "source", 2)
    with pytest.raises(LabError, match="replica has 3 transactions: "):
        failover.rejoin(pair, "replica")

    assert done.lacks.startswith("replica has 3 transactions: ")


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_a_replica_that_is_ahead_of_the_promoted_one_is_left_alone_and_taken_back(new_lab, engine, monkeypatch):
    """The near one is cut off when the source commits for the last time; the far one has those rows."""
    monkeypatch.setattr(failover, "CATCH_UP_SECONDS", 2)
    images.ensure(up.image_names(engine))
    lab = new_lab("fanout", engine, toxics={"source-far": "lan"})
    try:
        kept = count(lab, "near")
        lab.link("source-near").cut()
        write(lab, "source", 3)
        Replica(lab.node("far").server()).wait_for(BinaryLog(lab.node("source").server()).position())
        lab.node("source").kill()
        clock.wait_until(lambda: lab.node("source").state()[0] == "exited", "the source's end")

        done = failover.failover(lab, "near", allow_data_loss=True)
        write(lab, "near", 2)
        with pytest.raises(LabError, match="far has 3 transactions") as refusal:
            failover.rejoin(lab, "far")
        back = failover.rejoin(lab, "far", discard_errant=True)

        assert done.repointed == [] and done.ahead["far"].startswith("3 transactions: ")
        assert "--discard-errant" in refusal.value.next_step
        assert (back.source, back.discarded) == ("near", done.ahead["far"])
        assert count(lab, "far") == count(lab, "near") == kept + 2
        # Its data and its GTIDs are those of its source: it lacks nothing, and no replica is ahead of it.
        again = failover.failover(lab, "far")
        assert (again.old, again.lacks, again.ahead) == ("near", "", {})
        assert failover.rejoin(lab, "near").discarded == ""
    finally:
        with signals.signals_held():
            lab.down()


@pytest.mark.parametrize("pair", ["mariadb"], indirect=True)
def test_an_old_source_that_starts_again_refuses_writes(pair):
    """It is fenced without any other command: two sources would be a split brain. So is one that was promoted."""
    for old, new in (("source", "replica"), ("replica", "source")):
        pair.node(old).kill()
        clock.wait_until(lambda old=old: pair.node(old).state()[0] == "exited", f"the end of {old}")
        failover.failover(pair, new)
        pair.node(old).start_again()
        clock.wait_until(lambda old=old: pair.node(old).answers(), f"{old} to answer")

        with pytest.raises(LabError, match="read-only"):
            pair.node(old).server().as_application().execute("CREATE TABLE lab.refused (id INT)")
        pair.node(new).server().as_application().execute(f"CREATE TABLE lab.accepted_by_{new} (id INT)")
        failover.rejoin(pair, old)


@pytest.mark.long
def test_the_commands_do_it_too(command, name):
    """As a user types them; the others are repointed."""
    assert command("up", "fanout", "--lab", name, "--toxic", "source-far=lan").returncode == 0

    promoted = command("failover", "near", "--lab", name)
    back = command("rejoin", "source", "--lab", name, "--json")

    assert promoted.returncode == 0, promoted.stderr
    assert "near is the source" in promoted.stdout and "repointed: far" in promoted.stdout
    assert '"source": "near"' in back.stdout, back.stderr
    assert failover.sources(project.find(name)) == {"far": "near", "source": "near"}
