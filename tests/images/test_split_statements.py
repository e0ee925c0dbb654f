"""Hooks are taken apart into statements, one a line, or refused."""

import subprocess

import pytest
from replication_lab.world import catalogue

SCRIPT = catalogue.IMAGES / "database" / "split-statements.awk"


def split(text):
    """Return the exit code of the script, and the lines it prints."""
    done = subprocess.run(["awk", "-f", SCRIPT], input=text, capture_output=True, text=True, timeout=10, check=False)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("SELECT 1;\nSELECT 2;", ["SELECT 1;", "SELECT 2;"]),
        ("SELECT 1; SELECT 2;", ["SELECT 1;", "SELECT 2;"]),
        ("CHANGE MASTER TO\n  MASTER_HOST = 'a';\n", ["CHANGE MASTER TO   MASTER_HOST = 'a';"]),
        ("-- one;\n# two;\nSELECT 1; -- three;\n", ["SELECT 1;"]),
        ("SELECT 1 /* a;\nb */ + 2;", ["SELECT 1 /* a; b */ + 2;"]),
        ("/*!40101 SET NAMES utf8 */;", ["/*!40101 SET NAMES utf8 */;"]),
        ("SELECT 'a;b', \"-- c\", `d#e`;", ["SELECT 'a;b', \"-- c\", `d#e`;"]),
        ("SELECT 'it''s', 'it\\'s';", ["SELECT 'it''s', 'it\\'s';"]),
        ("SELECT 'two\nlines';", ["SELECT 'two\\nlines';"]),
        ("SELECT 1--1;", ["SELECT 1--1;"]),
        ("USE shop;\r\nSELECT 1;\r\n", ["USE shop;", "SELECT 1;"]),
        ("SELECT 1", ["SELECT 1;"]),
        ("", []),
    ],
)
def test_statements_come_one_a_line(text, statements):
    """Quotes and comments are respected, and a statement over several lines becomes one line."""
    assert (0, statements) == split(text)


@pytest.mark.parametrize(
    "text",
    [
        "DELIMITER //\nSELECT 1 //\n",
        "source other.sql\n",
        "use shop\nSELECT 1;",
        "SELECT 1\\G",
        "SELECT 'never closed;\n",
        "SELECT '" + "x" * 16_000 + "';",
    ],
)
def test_what_only_a_client_understands_is_refused(text):
    """Where joining lines is not enough, the script says so by its exit code."""
    assert split(text)[0] == 1
