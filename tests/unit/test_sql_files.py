"""Are files of SQL run on a lab's node, up to the statement that fails, and refused where they would do harm?"""

import gzip
import json

import pytest
from click.testing import CliRunner
from replication_lab import cli
from replication_lab.lab import nodes, sql_files
from replication_lab.lab import up as labs
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.replication import failover
from replication_lab.world import catalogue
from replication_lab.world.docker import engine, labels, project

from tests.fakes.lab import FakeLab
from tests.fakes.session import MISSING

TWO = "CREATE TABLE t (a INT);\nINSERT INTO foo (text) VALUES ('a');\n"
FAILS = f"CREATE TABLE t (a INT);\n\nDROP TABLE {MISSING};\nDROP TABLE t;\n"


@pytest.fixture
def lab(fake_world, monkeypatch):
    """Return a running semi-synchronous pair, found by every command; its replica is read-only."""
    found = FakeLab(fake_world(), catalogue.topology("semisync"), "mariadb")
    found.node("replica").server().set_global(read_only="ON")
    monkeypatch.setattr(project, "find", lambda _name: found)
    monkeypatch.setattr(failover, "following", lambda _lab: {"source": "", "replica": "source"})
    monkeypatch.setattr(nodes, "refuse_unless_running", lambda *_: None)
    return found


def sql(text, name="shop.sql"):
    return GivenFile(name, text)


def loaded(*arguments):
    return CliRunner().invoke(cli.cli, ["sql", *arguments], prog_name="lab")


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_run_on_a_node(lab, tmp_path, packed):
    """All statements in their order, from a file that may be packed."""
    file = tmp_path / ("shop.sql.gz" if packed else "shop.sql")
    file.write_bytes(gzip.compress(TWO.encode()) if packed else TWO.encode())
    answer = loaded("source", "--file", str(file), "--json")

    assert answer.exception is None, answer.exception
    assert json.loads(answer.stdout) == {"node": "source", "file": "shop.sql"}
    assert lab.said == ["CREATE TABLE t (a INT)", "INSERT INTO foo (text) VALUES ('a')"]


def test_the_first_statement_that_fails_ends_it(lab, refused):
    """The message has the file, the line, and what became of the statements before."""
    error = refused(sql_files.load, lab, "source", sql(FAILS))

    assert error.found.startswith(f"shop.sql line 3, `DROP TABLE {MISSING}`, on source failed")
    assert "the statements before it took effect" in error.found
    assert lab.said == ["CREATE TABLE t (a INT)"]


def test_a_read_only_replica_is_refused(lab, refused):
    """With the command for the node where clients write; one that takes writes is not refused."""
    error = refused(sql_files.load, lab, "replica", sql(TWO))

    assert "read-only replica" in error.found and error.next_step.startswith("./lab sql source --file FILE")
    assert lab.said == []
    lab.node("replica").server().set_global(read_only="OFF")
    sql_files.load(lab, "replica", sql(TWO))
    assert len(lab.said) == 2


@pytest.mark.parametrize(
    ("node", "file", "said"),
    [
        ("sauce", sql(TWO), "unknown node of semisync 'sauce'; did you mean source?"),
        ("source", sql("-- nothing"), "holds no statement"),
        ("source", sql("mysqldump: Got error\nDROP TABLE t;"), "`mysqldump: Got error` begins with no word of SQL"),
        (
            "source",
            sql("DROP TABLE t;\nsource more.sql\n"),
            "shop.sql line 2: `source more.sql` reads a file that is not",
        ),
        ("source", sql(TWO, "load.lua"), "load.lua is not a .sql file"),
        ("source", sql("DROP TABLE t;\nSET sql_log_bin = 0;"), "shop.sql line 2: it sets sql_log_bin"),
        ("source", sql("SET @@GLOBAL.GTID_PURGED='a:1';"), "it sets GTID_PURGED"),
    ],
)
def test_what_would_do_harm_runs_nothing(lab, refused, node, file, said):
    """Nothing was run."""
    assert said in refused(sql_files.load, lab, node, file).found
    assert lab.said == []


def test_other_databases_are_the_users_own(lab):
    """Unlike in a question, whose copies are compared."""
    sql_files.load(lab, "source", sql("CREATE DATABASE shop; USE shop; DROP TABLE t;"))

    assert len(lab.said) == 3


def test_one_server_may_set_what_is_for_one_copy(fake_world):
    """There is no other copy."""
    assert sql_files.lines_for(sql("SET sql_log_bin = 0;"), catalogue.topology("single"))


# --- lab up --init ----------------------------------------------------------------------------------------------------


def test_files_are_run_at_the_first_start_where_clients_write(lab):
    """In their order."""
    sql_files.run_at_start(lab, (sql("DROP TABLE a;"), sql("DROP TABLE b;")), print)

    assert lab.said == ["DROP TABLE a", "DROP TABLE b"]


@pytest.mark.parametrize(
    ("text", "said"), [("no SQL", "no word of SQL"), ("SET sql_log_bin = 0;", "sql_log_bin"), ("", "no statement")]
)
def test_a_bad_file_is_refused_before_a_lab_starts(monkeypatch, tmp_path, text, said):
    """The engine was not touched."""
    monkeypatch.setattr(engine, "ensure", lambda: pytest.fail("the engine was touched"))
    (tmp_path / "shop.sql").write_text(text)
    found = CliRunner().invoke(cli.cli, ["up", "semisync", "--init", str(tmp_path / "shop.sql")], prog_name="lab")

    assert said in str(found.exception)


def test_a_missing_file_is_refused_before_a_lab_starts(monkeypatch):
    """By its path."""
    monkeypatch.setattr(engine, "ensure", lambda: pytest.fail("the engine was touched"))
    found = CliRunner().invoke(cli.cli, ["up", "semisync", "--init", "no/such.sql"], prog_name="lab")

    assert "no/such.sql cannot be read" in str(found.exception)


def test_a_statement_that_fails_removes_the_lab(lab, monkeypatch, refused):
    """The sabotage: its line is in the message, and nothing is proved."""
    down = []
    monkeypatch.setattr(FakeLab, "down", lambda _lab: down.append(True), raising=False)
    monkeypatch.setattr(labs, "prove", lambda *_: pytest.fail("a lab whose rows are missing was proved"))
    monkeypatch.setattr(project, "start", lambda _asked: lab)
    monkeypatch.setattr(project, "all_labs", dict)
    monkeypatch.setattr(labels, "refuse_taken", lambda *_: None)
    monkeypatch.setattr(labs, "tidy", lambda _tell: None)
    monkeypatch.setattr(labs.images, "ensure", lambda _names: None)
    monkeypatch.setattr(engine, "ensure", lambda: None)
    asked = LabRequest(catalogue.topology("semisync"), "mariadb", "lab-a", init=(sql(FAILS),))

    assert "shop.sql line 3" in refused(labs.up, asked, print).found
    assert down == [True]


def test_a_running_lab_refuses_files_for_the_first_start(lab, monkeypatch, refused):
    """With the command for a lab that runs."""
    monkeypatch.setattr(project, "all_labs", lambda: {"lab-a": lab})
    monkeypatch.setattr(labs, "tidy", lambda _tell: None)
    monkeypatch.setattr(engine, "ensure", lambda: None)
    asked = LabRequest(catalogue.topology("semisync"), "mariadb", "lab-a", init=(sql(TWO),))
    error = refused(labs.up, asked, print)

    assert "runs files only at the first start" in error.found and "./lab sql source --file FILE" in error.next_step
    assert lab.said == []
