"""Real servers count each statement that changes or locks a table, or stops replication, and nothing hides that."""

import re
import secrets
from contextlib import closing

import msgspec
import pymysql
import pytest
from replication_lab import replication
from replication_lab.lab import up
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.witnesses.statements_of_others import UNDISTURBED
from replication_lab.world import catalogue, clock, signals
from replication_lab.world.docker import images, project

from tests.lab.witnessed import proof_while

ENGINES = ["mariadb", *(pytest.param(each, marks=pytest.mark.long) for each in ("mysql-5.5", "mysql-5.6", "mysql-8.0"))]
UNLOGGED = "SET SESSION sql_log_bin = 0"
THERE_AND_BACK = ("ALTER TABLE lab.goods ADD COLUMN more INT", "ALTER TABLE lab.goods DROP COLUMN more")


@pytest.fixture(scope="module", params=ENGINES)
def pair(request, docker):
    topology = catalogue.topology("async")
    images.ensure(up.image_names(request.param, topology=topology))
    lab = project.start(LabRequest(topology, request.param, f"test-{secrets.token_hex(4)}"))
    try:
        lab.node("source").server().execute("CREATE TABLE lab.goods (id INT PRIMARY KEY)")
        replication.of(lab).wait_until_caught_up()
        yield lab
    finally:
        with signals.signals_held():
            lab.down()


def seen_of(lab, node, *statements):
    """Return what the witness says of statements of one session, one right after the other; empty if it proves all."""

    def act():
        with closing(lab.node(node).server().another()) as session:
            session.execute(*statements)

    proof = proof_while(lab, UNDISTURBED, act)
    return "" if proof.ok else str(proof.found)


def test_a_change_and_the_way_back_are_told_of_each_server_that_made_them(pair):
    """They come between two readings, and the replica repeats them."""
    found = seen_of(pair, "source", *THERE_AND_BACK)

    assert "source counted" in found and "replica counted" in found


@pytest.mark.parametrize(
    "statements",
    [
        THERE_AND_BACK,
        ("CREATE INDEX more ON lab.goods (id)", "DROP INDEX more ON lab.goods"),
        ("RENAME TABLE lab.goods TO lab.other", "RENAME TABLE lab.other TO lab.goods"),
        ("TRUNCATE TABLE lab.goods",),
        ("DROP TABLE lab.goods", "CREATE TABLE lab.goods (id INT PRIMARY KEY)"),
        ("CREATE USER more", "DROP USER more"),
        ("CREATE TRIGGER lab.more BEFORE INSERT ON lab.goods FOR EACH ROW SET NEW.id = 7", "DROP TRIGGER lab.more"),
    ],
    ids=lambda statements: statements[0].split(" lab.")[0],
)
def test_what_the_binary_log_does_not_have_is_told_and_a_flush_hides_nothing(pair, statements):
    """FLUSH STATUS adds a session's counters to the server's; MySQL then counts the time since it anew."""
    assert "replica counted" in seen_of(pair, "replica", UNLOGGED, *statements)
    assert re.search("replica (counted|flushed)", seen_of(pair, "replica", UNLOGGED, *statements, "FLUSH STATUS"))


def test_a_plugin_that_is_installed_and_removed_is_told(pair):
    """It can change how accounts log in, and what a commit waits for."""
    if pair.node("replica").dialect.family != "mariadb":
        pytest.skip("the plugin is one of MariaDB's")
    found = seen_of(pair, "replica", "INSTALL PLUGIN ed25519 SONAME 'auth_ed25519'", "UNINSTALL PLUGIN ed25519")
    assert "replica counted 1 install plugin" in found and "replica counted 1 uninstall plugin" in found


@pytest.mark.long
def test_a_redo_log_that_is_off_for_a_moment_is_told(pair):
    """MySQL 8.0 and later can do without: no commit is durable meanwhile, and no variable says so."""
    if pair.engine == "mysql-8.0":
        found = seen_of(
            pair, "source", "ALTER INSTANCE DISABLE INNODB REDO_LOG", "ALTER INSTANCE ENABLE INNODB REDO_LOG"
        )
        assert "source counted 2 alter instance" in found


def test_counters_that_are_taken_off_are_told(pair):
    """Only MariaDB can, since 11.5."""
    if pair.node("replica").dialect.family == "mariadb":
        found = seen_of(pair, "replica", UNLOGGED, *THERE_AND_BACK, "FLUSH GLOBAL STATUS")
        assert "replica flushed its counters" in found


@pytest.mark.parametrize(
    "statements",
    [
        ("FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES"),
        ("LOCK TABLES lab.goods WRITE", "UNLOCK TABLES"),
        ("{stop}", "{start}"),
        ("{stop_applier}", "{start_applier}"),
    ],
    ids=lambda statements: statements[0],
)
def test_a_lock_or_a_stop_of_replication_is_told_unless_the_lab_asks_for_it(pair, statements):
    """Others do not send their statements through this process's connections; the lab notes a stop of its own."""
    server = pair.node("replica").server()
    statements = [each.format_map(msgspec.structs.asdict(server.dialect)) for each in statements]

    def others():
        with closing(server.connect()) as connection:
            for each in statements:
                connection.query(each)

    found = str(proof_while(pair, UNDISTURBED, others).found)

    assert re.search("replica counted 1 (flush|lock tables|stop slave|slave stop|replica stop)", found)
    if "TABLES" not in statements[0]:
        assert seen_of(pair, "replica", *statements) == ""


@pytest.mark.parametrize("by", ["text", "a prepared statement", pytest.param("a procedure", marks=pytest.mark.long)])
def test_a_variable_that_others_set_is_told_however_they_send_the_statement(pair, by):
    """The value is compared, not the statement."""
    server = pair.node("source").server()
    value = server.value("SELECT @@GLOBAL.max_connect_errors") + 1
    statement = f"SET GLOBAL max_connect_errors = {value}"
    if by == "a procedure":
        server.execute(f"CREATE PROCEDURE lab.sets() {statement}")
        statement = "CALL lab.sets()"

    def others():
        with closing(server.connect()) as connection:
            if by == "a prepared statement":
                connection.query(f"PREPARE sets FROM '{statement}'")
            connection.query("EXECUTE sets" if by == "a prepared statement" else statement)

    found = str(proof_while(pair, UNDISTURBED, others).found)
    if by == "a procedure":
        server.execute("DROP PROCEDURE lab.sets")

    assert f"max_connect_errors was {value} on source" in found


def test_a_long_statement_of_lab_sql_is_told_and_a_short_one_is_no_doubt(pair, command):
    """It uses the server's CPU time, or holds locks."""

    def ask(statement):
        return str(
            proof_while(pair, UNDISTURBED, lambda: command("sql", "replica", "-e", statement, "--lab", pair.name))
        )

    assert re.search(
        r"a session of others, number \d+ from [\w.]+, ran `SELECT SLEEP\(3\)` on replica", ask("SELECT SLEEP(3)")
    )
    assert "a session of others" not in ask("SELECT 1")


def test_a_client_that_waits_in_a_trigger_of_roots_is_no_session_of_others(pair):
    """The server lists it as root's while the trigger runs: the user's tables are made as root."""
    server = pair.node("source").server()
    host, port = server.address
    server.execute(
        "CREATE TABLE lab.slow (id INT PRIMARY KEY)",
        "CREATE DEFINER = 'root'@'localhost' TRIGGER lab.waits BEFORE INSERT ON lab.slow FOR EACH ROW "
        "SET @waited = SLEEP(3)",
    )

    def application():
        password = server.passwords["lab"]
        with closing(pymysql.connect(host=host, port=port, user="lab", password=password)) as connection:
            connection.query("INSERT INTO lab.slow VALUES (1)")

    proof = proof_while(pair, UNDISTURBED, application)
    server.execute("DROP TABLE lab.slow")

    assert "a session of others" not in str(proof.found)


def test_short_statements_one_after_the_other_are_told(pair):
    """As the load of a benchmark by hand."""
    server = pair.node("source").server()
    host, port = server.address

    def benchmark():
        password, until = server.passwords["root"], clock.timer() + 4
        with closing(pymysql.connect(host=host, port=port, user="root", password=password)) as connection:
            while clock.timer() < until:
                connection.query("SELECT SLEEP(0.05)")

    found = str(proof_while(pair, UNDISTURBED, benchmark).found)

    assert re.search(r"a session of others, number \d+ from [\d.]+, ran `SELECT SLEEP\(0.05\)` on source", found)


def test_tables_that_are_made_or_written_are_no_doubt(pair):
    """As by the lab's own probes."""
    assert (
        seen_of(pair, "source", "CREATE TABLE IF NOT EXISTS lab.more (id INT)", "INSERT INTO lab.more VALUES (1)") == ""
    )
