"""Are dumps of many tools loaded by the client of the node's own server, and is what fails told by its line?"""

import json

import pytest
from replication_lab import replication
from replication_lab.lab import sql_files
from replication_lab.model.core.errors import LabError
from replication_lab.world import catalogue, clock, given_texts
from replication_lab.world.docker import project
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica

from tests.lab.conftest import things_of

DUMPS = catalogue.ROOT / "tests" / "files" / "dumps"
NAMES = "SELECT GROUP_CONCAT(name ORDER BY id) FROM {}.item"


def load(lab, name):
    sql_files.load(lab, "source", given_texts.read(DUMPS / name))


@pytest.fixture
def empty(loaded):
    """Return a pair without the tables of these dumps."""
    yield loaded
    source = loaded.node("source").server()
    source.execute("DROP VIEW IF EXISTS lab.names", "DROP TABLE IF EXISTS lab.item", "DROP DATABASE IF EXISTS shop")
    for name in ("touch_all", "add_item"):
        source.execute(f"DROP PROCEDURE IF EXISTS lab.{name}")


@pytest.mark.parametrize(
    ("name", "database", "names"),
    [
        ("mysqldump.sql", "lab", "a; -- b,it's\nSET sql_log_bin = 0,DELIMITER //"),
        ("mariadb-dump.sql", "lab", "a,ä"),
        ("phpmyadmin.sql", "lab", "a,b; c,d"),
        ("employees/employees.sql", "lab", "a,b,c,d"),
        ("mydumper", "shop", "a,b,c"),
    ],
)
def test_a_dump_is_loaded_and_replicated(empty, name, database, names):
    """With its triggers, routines and views, whichever tool wrote it."""
    load(empty, name)
    source, replica = (empty.node(node).server() for node in ("source", "replica"))
    Replica(replica).wait_for(BinaryLog(source).position())

    assert [server.value(NAMES.format(database)) for server in (source, replica)] == [names, names]
    assert replication.of(empty).differences() == []


def test_programs_of_a_dump_do_what_they_did(empty):
    """The trigger and the procedure were created whole, although they contain semicolons."""
    load(empty, "mysqldump.sql")
    source = empty.node("source").server()
    source.execute("CALL lab.touch_all()")

    assert source.value("SELECT GROUP_CONCAT(name, changed ORDER BY id) FROM lab.item WHERE id <> 2") == (
        "a; -- b!1,DELIMITER //!1"
    )
    assert source.value("SELECT COUNT(*) FROM lab.names") == 3


def test_the_failing_statement_is_told_with_its_line(empty):
    """A statement of several lines by its first one; what comes after it was not run."""
    with pytest.raises(LabError) as failed:
        load(empty, "fails.sql")

    assert failed.value.found.startswith("fails.sql line 5, `INSERT INTO item`, on source failed: Duplicate entry '1'")
    assert empty.node("source").server().value("SELECT COUNT(*) FROM lab.item") == 1


@pytest.mark.parametrize("name", ["warning.sql", "gtids.sql"])
def test_a_dump_that_a_lab_cannot_take_runs_nothing(empty, name):
    """The message of a tool in its first line; a switched-off binary log."""
    with pytest.raises(LabError):
        load(empty, name)

    assert empty.node("source").server().rows("SHOW TABLES FROM lab LIKE 'item'") == []


@pytest.mark.long
@pytest.mark.parametrize("engine", ["mysql-8.0", "mysql-5.5", "mariadb"])
def test_a_lab_of_each_vendor_starts_with_the_dumps_of_all(command, name, engine):
    """Each by the client of its own server; that of MariaDB begins with a command that MySQL's does not know."""
    for number, dump in enumerate(("mysqldump.sql", "mariadb-dump.sql", "mydumper")):
        lab = f"{name}-{number}"
        started = command("up", "single", "--engine", engine, "--lab", lab, "--init", str(DUMPS / dump))
        command("down", "--lab", lab)
        assert started.returncode == 0, started.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("engine", "position"),
    [("mysql-8.0", "MASTER_AUTO_POSITION=1, GET_MASTER_PUBLIC_KEY=1"), ("mariadb", "MASTER_USE_GTID=slave_pos")],
)
def test_a_dump_that_names_a_source_makes_no_ring(command, name, engine, position, tmp_path):
    """It is refused with its line before a lab starts, or after it ran if it hides the statement from every reader.

    Typed, the statement is what the user asked for: the nodes follow each other, and `lab status` shows them.
    """

    def typed(sql: str) -> None:
        answer = command("sql", "source", "--lab", name, "-e", sql)
        assert answer.returncode == 0, answer.stderr

    def roles() -> dict[str, str]:
        shown = command("status", "--lab", name).stdout
        (found,) = json.loads(command("status", "--lab", name, "--json").stdout)
        named = {node["name"]: node["role"] for node in found["nodes"]}
        assert all(shown.count(f"{node} ({role})") == 1 for node, role in named.items()), shown
        return named

    plain, hidden = (tmp_path / each for each in ("plain.sql", "hidden.sql"))
    plain.write_text("CREATE TABLE t (id INT);\nCHANGE MASTER TO MASTER_HOST='replica';\n")
    hidden.write_text("SET @s = \"CHANGE MASTER TO MASTER_HOST='replica'\";\nPREPARE p FROM @s;\nEXECUTE p;\n")
    for file, said in ((plain, "plain.sql line 2: "), (hidden, "hidden.sql has changed what source replicates from")):
        refused = command("up", "async", "--engine", engine, "--lab", name, "--init", str(file))
        assert refused.returncode == 2 and said in " ".join(refused.stderr.split()), refused.stderr
        assert things_of(name) == []

    started = command("up", "async", "--engine", engine, "--lab", name)
    assert started.returncode == 0, started.stderr
    try:
        lab = project.find(name)
        source, replica = (lab.node(node).server() for node in ("source", "replica"))
        refused = command("sql", "source", "--lab", name, "--file", str(plain))
        assert refused.returncode == 2 and not Replica(source).channels()
        # As mysqldump writes it.
        typed("CHANGE MASTER TO MASTER_LOG_FILE='bin.000003', MASTER_LOG_POS=154")
        assert roles() == {"source": "source", "replica": "replica"}

        account = f"MASTER_USER='replicator', MASTER_PASSWORD='{lab.passwords['replicator']}'"
        typed(f"CHANGE MASTER TO MASTER_HOST='replica', MASTER_PORT=3306, {account}, {position}; START SLAVE")
        clock.wait_until(lambda: all(each.healthy for each in Replica(source).channels().values()), "a ring")
        assert roles() == {"source": "relay", "replica": "relay"}
        source.execute("CREATE TABLE lab.t (id INT)", "INSERT INTO lab.t VALUES (1)")
        Replica(replica).wait_for(BinaryLog(source).position())
        assert [server.value("SELECT COUNT(*) FROM lab.t") for server in (source, replica)] == [1, 1]

        typed("STOP SLAVE; RESET SLAVE ALL")
        assert roles() == {"source": "source", "replica": "replica"}
    finally:
        command("down", "--lab", name)
