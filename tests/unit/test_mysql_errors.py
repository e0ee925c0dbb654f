"""Which errors leave it open whether a transaction was committed, which are conflicts, and what they mean."""

import pymysql
import pytest
from replication_lab.model.lab import mysql_errors


@pytest.mark.parametrize(
    ("code", "definite"), [(1062, True), (1213, True), (1180, False), (2013, False), (2055, False)]
)
def test_a_refusal_is_definite_and_a_lost_answer_is_not(code, definite):
    """Also for numbers that the table does not have."""
    assert mysql_errors.is_definite(code) == definite


def test_an_error_without_a_number_is_a_lost_connection():
    """The library raises some with 0, the operating system with words."""
    assert mysql_errors.code_of(pymysql.err.InterfaceError(0, "")) is None
    assert mysql_errors.code_of(TimeoutError("timed out")) is None
    assert mysql_errors.is_lost(None) and not mysql_errors.is_definite(None)


def test_only_conflicts_are_tried_again_at_once():
    """By deadlock or timeout."""
    assert [mysql_errors.conflict(code) for code in (1213, 1205, 1047, 9999)] == ["deadlock", "timeout", "", ""]


def test_a_number_is_told_by_its_meaning():
    """Or by nothing."""
    assert (mysql_errors.meaning(1290), mysql_errors.meaning(9999)) == ("the server is read-only", "")


@pytest.mark.parametrize("code", [1026, 1030, 1180, 1598, 3100, 3101])
def test_an_error_at_the_commit_leaves_its_outcome_unknown(code):
    """The transaction may be in the binary log, or on another node of the group, although its client got an error."""
    assert not mysql_errors.is_definite(code)
