"""Is a variable of the other family of servers told from one that no server has?"""

import pytest
from replication_lab.experiments.question import variables as settings
from replication_lab.lab import start_options
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab import mysql_errors
from replication_lab.model.lab.option_file import unknown_in
from replication_lab.model.lab.reserved_options import refuse_reserved
from replication_lab.world import catalogue
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.variables import TITLES, pairs, why_unknown

from tests.fakes.lab import FakeLab

BOTH_WAYS = {
    "replica_parallel_workers": "slave_parallel_threads",
    "gtid_executed": "gtid_current_pos",
    "gtid_purged": "gtid_binlog_state",
    "binlog_group_commit_sync_delay": "binlog_commit_wait_usec",
    "binlog_group_commit_sync_no_delay_count": "binlog_commit_wait_count",
    "max_execution_time": "max_statement_time",
}
TO_MARIADB = {
    "rpl_semi_sync_source_timeout": "rpl_semi_sync_master_timeout",
    "rpl_semi_sync_replica_enabled": "rpl_semi_sync_slave_enabled",
    "innodb_redo_log_capacity": "innodb_log_file_size",
    "super_read_only": "read_only",
    "replica_net_timeout": "slave_net_timeout",
    "log_replica_updates": "log_slave_updates",
    "replica_exec_mode": "slave_exec_mode",
    "source_verify_checksum": "master_verify_checksum",
    "binlog_transaction_dependency_tracking": "slave_parallel_mode",
}


@pytest.mark.parametrize(("name", "other"), [*BOTH_WAYS.items(), *TO_MARIADB.items()])
def test_mysqls_variable_on_mariadb(name, other):
    """It says that only MySQL has it, and what MariaDB has."""
    assert why_unknown(name, "mariadb", ["sync_binlog", other]) == f", which only MySQL has; MariaDB's is {other}"


@pytest.mark.parametrize(("other", "name"), BOTH_WAYS.items())
def test_mariadbs_variable_on_mysql(other, name):
    """The reverse."""
    assert why_unknown(name, "mysql", [other]) == f", which only MariaDB has; MySQL's is {other}"


@pytest.mark.parametrize(
    ("name", "family", "said"),
    [
        ("group_replication_consistency", "mariadb", "which only MySQL has; MariaDB has no Group Replication"),
        ("gtid_mode", "mariadb", "which only MySQL has; MariaDB always writes GTIDs"),
        ("wsrep_sync_wait", "mysql", "which only MariaDB has; MySQL has no Galera"),
        ("replica_preserve_commit_order", "mariadb", "parallel appliers of MariaDB always commit in"),
    ],
)
def test_a_variable_without_a_counterpart_has_a_reason(name, family, said):
    """Nothing else is suggested in its place."""
    assert said in why_unknown(name, family, ["sync_binlog"])


def test_another_version_of_the_same_family_has_another_name():
    """MySQL 5.7 has the names that MySQL 8.4 has not; they are MariaDB's, too."""
    old, new = "rpl_semi_sync_master_timeout", "rpl_semi_sync_source_timeout"

    assert why_unknown(new, "mysql", [old]) == f"; here it is {old}"
    assert why_unknown(old, "mysql", [new]) == f"; here it is {new}"


def test_a_counterpart_that_the_server_does_not_have_is_not_named():
    """Of an old server."""
    assert why_unknown("gtid_executed", "mariadb", ["sync_binlog"]) == ", which only MySQL has"


def test_a_name_that_no_server_has_is_not_listed():
    """The nearest known name is then suggested instead."""
    assert why_unknown("sink_binlog", "mariadb", ["sync_binlog"]) == ""


def test_the_list_is_long_enough_to_be_of_use_and_names_nothing_twice():
    """A second entry with a name would never be reached."""
    for family in TITLES:
        names = [name for pair in pairs() for name in getattr(pair, family)]
        mine = [name for name in names if name != "slave_parallel_mode"]
        assert len(mine) == len(set(mine)), family
    assert len(pairs()) >= 15


class Server:
    name, dialect = "replica", dialects()["mariadb"]

    def value(self, _sql):
        raise LabError("it was refused") from Exception(mysql_errors.UNKNOWN_VARIABLE)

    def rows(self, _sql):
        return [{"Variable_name": name} for name in ("rpl_semi_sync_master_timeout", "sync_binlog")]

    def version(self):
        return "11.8.9-MariaDB"


def test_a_question_says_which_server_has_the_variable(refused):
    """And not the nearest name of another meaning."""
    found = refused(settings._read, Server(), "rpl_semi_sync_source_timeout").found

    assert found == (
        "replica has no variable rpl_semi_sync_source_timeout, which only MySQL has; "
        "MariaDB's is rpl_semi_sync_master_timeout"
    )
    assert "did you mean sync_binlog?" in refused(settings._read, Server(), "sink_binlog").found


def test_an_option_that_a_server_does_not_start_with_is_explained_too(fake_world, refused):
    """By the server's own error, and what is known of the variable."""
    lab = FakeLab(fake_world(), catalogue.topology("async"), "mariadb")
    lab.died["source"] = "[ERROR] mariadbd: unknown variable 'innodb-redo-log-capacity=100M'\n[ERROR] Aborting"
    found = refused(start_options._are_up, lab, ["source"], {}).found

    assert "innodb_redo_log_capacity, which only MySQL has; MariaDB's is innodb_log_file_size" in found


def test_variables_are_found_in_each_form_of_the_error():
    """Of both families."""
    assert unknown_in(["unknown variable 'gtid_mode=ON'", "unknown option '--skip-x'", "no"]) == ["gtid_mode", "skip_x"]


def test_an_option_that_cannot_be_set_says_what_can(refused):
    """The form that works in its place."""
    error = refused(refuse_reserved, "wsrep_provider_options")

    assert "wsrep_provider_gcs_fc_limit=16" in error.expected
    assert refused(refuse_reserved, "server_id").expected == "other options"
