"""Does `lab sql -e` take statements as a client does, and say what became of one that did not end well?"""

import json

import pymysql
import pytest
from click.testing import CliRunner
from replication_lab import cli
from replication_lab.lab import nodes
from replication_lab.model.question.sql_text import typed_statements
from replication_lab.replication import failover
from replication_lab.world import catalogue
from replication_lab.world.docker import project
from replication_lab.world.docker.sql_client import Failure
from replication_lab.world.mysql import script

from tests.fakes.lab import FakeLab, FakeNode
from tests.fakes.session import MISSING

GONE = pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")
INSERT = "INSERT INTO lab.t VALUES (1)"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1"]),
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';'; SELECT \"a;b\"; SELECT `c;d` FROM t", ["SELECT ';'", 'SELECT "a;b"', "SELECT `c;d` FROM t"]),
        ("SELECT 1 -- no; end\n; SELECT 2 # ;\n", ["SELECT 1", "SELECT 2"]),
        ("/* ; */ SELECT 1; /*! SELECT 2 */;", ["SELECT 1", "/*! SELECT 2 */"]),
        (";; SELECT 1 ;; ;", ["SELECT 1"]),
        ("DELIMITER //\nCREATE PROCEDURE p() BEGIN SELECT 1; END//\nDELIMITER ;\nCALL p()", None),
        ("SELECT 'it\\'s;'; SELECT 'a'';'", ["SELECT 'it\\'s;'", "SELECT 'a'';'"]),
        ("", []),
        (" ; -- nothing", []),
    ],
)
def test_typed_text_is_split_as_clients_do(text, found):
    """An end within a string, a name or a comment is none; the last statement needs no end."""
    expected = ["CREATE PROCEDURE p() BEGIN SELECT 1; END", "CALL p()"] if found is None else found

    assert [each.sql for each in typed_statements(text)] == expected


def test_each_statement_has_its_own_form_of_output():
    """By its end, outside of strings only."""
    found = typed_statements("SELECT 1\\G SELECT 2; SELECT '\\\\G'\\g SELECT 3 \\G")

    assert [(each.sql, each.upright) for each in found] == [
        ("SELECT 1", True),
        ("SELECT 2", False),
        ("SELECT '\\\\G'", False),
        ("SELECT 3", True),
    ]


def test_a_quote_that_is_never_closed_runs_nothing(refused):
    """It is read to its end first."""
    assert "-e line 1: a quote is never closed" in refused(typed_statements, "DROP TABLE t; SELECT 'a").found


@pytest.fixture
def lab(fake_world, monkeypatch):
    """Return a running semi-synchronous pair, found by every command."""
    found = FakeLab(fake_world(), catalogue.topology("semisync"), "mariadb")
    monkeypatch.setattr(project, "find", lambda _name: found)
    monkeypatch.setattr(failover, "following", lambda _lab: {"source": "", "replica": "source"})
    monkeypatch.setattr(nodes, "refuse_unless_running", lambda *_: None)
    return found


def typed(*arguments):
    return CliRunner().invoke(cli.cli, arguments, prog_name="lab")


def test_one_statement_keeps_its_form_and_several_are_an_array_of_results(lab):
    """As data; all are run in their order, in one session."""
    one, two = (
        typed("sql", "source", "--json", "-e", text) for text in ("INSERT INTO t VALUES (1)", "DROP TABLE a; SELECT 1;")
    )

    assert (json.loads(one.stdout), json.loads(two.stdout)) == ([], [[], []])
    assert lab.said == ["INSERT INTO t VALUES (1)", "DROP TABLE a", "SELECT 1"]


def test_the_first_statement_that_fails_ends_the_command(lab):
    """The message has its number, and how many were run."""
    failed = typed("sql", "source", "-e", f"DROP TABLE a; DROP TABLE {MISSING}; DROP TABLE b").exception

    assert failed.found.startswith(f"statement 2 of 3, `DROP TABLE {MISSING}` on source failed:")
    assert failed.found.endswith("; statements run before: 1 of 3")
    assert lab.said == ["DROP TABLE a"]


def test_the_results_before_a_statement_that_fails_are_printed_as_data_too(lab):
    """They have had their effect, and must not be sent again for their rows."""
    ended = typed("sql", "source", "--json", "-e", f"SELECT 1; DROP TABLE a; DROP TABLE {MISSING}")

    assert json.loads(ended.stdout) == [[], []]
    assert "statement 3 of 3" in ended.exception.found


def test_an_empty_text_is_refused(lab):
    """Nothing would be printed."""
    assert "-e holds no statement" in typed("sql", "source", "-e", " ;").exception.found


def test_an_unknown_outcome_ends_with_status_3(lab, monkeypatch):
    """Neither 0, nor 3 as for a statement that certainly failed."""

    def lost(*_):
        raise GONE

    monkeypatch.setattr(script, "rows_of", lost)
    ended = typed("sql", "source", "-e", INSERT)

    assert ended.exit_code == 3
    assert f"`{INSERT}` was sent to source, and its outcome is unknown" in " ".join(ended.stderr.split())


def test_a_file_says_which_statement_has_an_unknown_outcome(lab, monkeypatch, tmp_path):
    """And not that the file has to be corrected."""
    (tmp_path / "a.sql").write_text("DROP TABLE a;\n")
    monkeypatch.setattr(FakeNode, "run_sql", lambda *_: Failure(1, *GONE.args))
    ended = typed("sql", "source", "--file", str(tmp_path / "a.sql"))
    said = " ".join(ended.stderr.split())

    assert ended.exit_code == 3
    assert "a.sql line 1, `DROP TABLE a`, was sent to" in said and "look for its effect" in said
