"""Accounts and their passwords: each its own, and none where another user of the host can read it."""

import json

import pymysql
import pytest
from replication_lab.workloads.mysqlslap import Slap
from replication_lab.workloads.row_updates import RowChanges
from replication_lab.workloads.sysbench import SysbenchOltp

from tests.lab.processes import check_no_password, processes_watched

USERS = ("root", "lab", "replicator")


OLTP = SysbenchOltp("source", rows=200, seconds=1)
CHANGES = RowChanges(rows=20, databases=("lab", "lab_of_secrets"))


def updated(lab):
    CHANGES.fill(lab)
    assert CHANGES.change(lab, 1, 2000) == 2000


def transacted(lab):
    OLTP.fill(lab)
    assert OLTP.run(lab, 1).commits


@pytest.mark.parametrize(
    ("program", "load"),
    [
        (b"row_updates", updated),
        (b"oltp_read_write", transacted),
        (b"mariadb-slap", lambda lab: Slap("SELECT SLEEP(0.1)").run(lab, 1)),
        (b"mariadb-slap", lambda lab: Slap("SELECT SLEEP(0.1)", own="mariadb-slap").run(lab, 1)),
    ],
    ids=["row_updates", "sysbench", "mysqlslap", "the server's own mysqlslap"],
)
def test_no_load_shows_a_password_in_the_list_of_processes(loaded, program, load):
    """Any user of the host can read the arguments of all processes; the environment of one is its user's."""
    with processes_watched() as seen:
        load(loaded)

    check_no_password(loaded, seen, program)


@pytest.mark.parametrize("user", USERS)
def test_each_account_is_refused_with_the_passwords_of_the_others(loaded, user):
    """On each node; with its own password it connects."""
    for node in loaded.topology.nodes:
        host, port = loaded.node(node.name).published(3306)
        pymysql.connect(host=host, port=port, user=user, password=loaded.passwords[user]).close()
        for other in set(USERS) - {user}:
            with pytest.raises(pymysql.err.OperationalError) as refusal:
                pymysql.connect(host=host, port=port, user=user, password=loaded.passwords[other])
            assert refusal.value.args[0] == 1045


def connected(lab, user):
    host, port = lab.node("source").published(3306)
    return pymysql.connect(host=host, port=port, user=user, password=lab.passwords[user])


@pytest.mark.parametrize(
    ("user", "statement"),
    [
        ("replicator", "SELECT * FROM lab.rows_of_a_client"),
        ("replicator", "CREATE TABLE lab.t (id INT)"),
        ("replicator", "SELECT * FROM mysql.user"),
        ("lab", "SELECT * FROM mysql.user"),
        ("lab", "CREATE USER 'another'@'%'"),
        ("lab", "GRANT ALL ON *.* TO 'lab'@'%'"),
        ("lab", "SET GLOBAL max_connections = 10"),
        ("lab", "CREATE DATABASE another"),
        ("lab", "DROP TABLE lab_of_secrets.wide"),
    ],
)
def test_an_account_has_no_more_rights_than_it_needs(loaded, user, statement):
    """Replication reads no table, and an application administers nothing; a load's table may only be changed."""
    loaded.node("source").server().execute("CREATE TABLE IF NOT EXISTS lab.rows_of_a_client (id INT PRIMARY KEY)")
    CHANGES.fill(loaded)
    with (
        connected(loaded, user) as connection,
        connection.cursor() as cursor,
        pytest.raises(pymysql.err.MySQLError, match="denied"),
    ):
        cursor.execute(statement)


def test_only_servers_have_the_passwords_of_root_and_of_replication(loaded):
    """Neither Toxiproxy nor the clients' container."""
    holders = {
        user: {name for name, one in loaded.containers.items() if loaded.passwords[user] in json.dumps(one.attrs)}
        for user in USERS
    }

    assert holders == {
        "root": {"source", "replica"},
        "lab": {"source", "replica", "load"},
        "replicator": {"source", "replica"},
    }
