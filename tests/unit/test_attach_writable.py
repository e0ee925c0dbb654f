"""Does a drill write only into servers that replicate what it writes, and that all are seen?"""

import pymysql
import pytest
from replication_lab.attach.writable import Filter, Stance, hindrances, refuse_unfit, stance
from replication_lab.world.mysql.dialects import dialects

from tests.fakes.connection import dialled_by, status_row


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Binlog_Do_DB", "app"),
        ("Binlog_Ignore_DB", "mysql,lab"),
        ("Replicate_Do_DB", "app,shop"),
        ("Replicate_Ignore_DB", "lab"),
        ("Replicate_Do_Table", "app.orders"),
        ("Replicate_Ignore_Table", "lab.ledger"),
        ("Replicate_Wild_Do_Table", "app.%,lab.led%"),
        ("Replicate_Wild_Ignore_Table", "%.ledger"),
        ("Replicate_Wild_Ignore_Table", "l_b.%"),
        ("Replicate_Rewrite_DB", "(lab,app)"),
        ("Replicate_Ignore_Server_Ids", "1"),
        ("Replicate_Do_Domain_Ids", "2"),
        ("replicate_do_db", "app"),
    ],
)
def test_a_filter_that_keeps_back_what_a_drill_writes_hinders(name, value):
    """Each kind of filter, of a log or of an applier."""
    assert Filter(name, value).hinders


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Binlog_Ignore_DB", "mysql,information_schema"),
        ("Binlog_Do_DB", "app, lab"),
        ("Replicate_Ignore_DB", "labor"),
        ("Replicate_Ignore_Table", "app.ledger"),
        ("Replicate_Wild_Ignore_Table", "mysql.%,%.tmp\\_%"),
        ("Replicate_Wild_Ignore_Table", "l\\_b.%"),
        ("Replicate_Wild_Do_Table", "%.%"),
        ("Replicate_Rewrite_DB", "app->app2"),
    ],
)
def test_a_filter_of_other_schemas_is_no_reason_to_refuse(name, value):
    """As production servers have them, for the server's own schema."""
    assert not Filter(name, value).hinders


PAIR = {"db": Stance("1", followers=frozenset({"2"})), "replica": Stance("2", sources=("db",))}
FOLLOWS = {"replica": "db"}


def found(follows=None, *, cluster=False, **changes):
    return hindrances({**PAIR, **changes}, "db", FOLLOWS if follows is None else follows, cluster)


def test_a_usual_pair_is_written_to():
    """A replica may be read-only, and a filter of its own log matters to nobody."""
    of_log = (Filter("Binlog_Do_DB", "app"),)
    assert found(replica=Stance("2", of_log, ("read_only",), sources=("db",))) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"db": Stance("1", (Filter("Binlog_Do_DB", "app"),))}, "db has the filter Binlog_Do_DB = app"),
        (
            {"replica": Stance("2", (Filter("Replicate_Do_DB", "app", "c1"),))},
            "replica has the filter Replicate_Do_DB = app of the channel c1",
        ),
        ({"db": Stance("1", read_only=("read_only", "tx_read_only"))}, "db is read-only (read_only, tx_read_only)"),
        (
            {"db": Stance("1", followers=frozenset({"2", "77"}))},
            "db has a replica that the lab does not see (server_id 77)",
        ),
        (
            {"db": Stance("1", sources=("elsewhere.example",))},
            "db itself replicates from elsewhere.example, which the lab does not see",
        ),
        ({"db": Stance("1", may_create=False)}, "the account on db may not create that schema"),
        (
            {"replica": Stance("2", sources=("db",), late=("does not replicate from db",))},
            "replica does not replicate from db",
        ),
        ({"db": Stance("1", followers=None)}, "the account on db may not ask which replicas are connected to it"),
    ],
)
def test_what_speaks_against_a_drill_is_named(changes, said):
    """Filters by their names, read-only state by its variable, servers that the lab does not see."""
    assert found(**changes) == [said]


def test_a_filter_of_a_log_matters_in_a_cluster_and_to_unknown_readers():
    """A member of a Galera cluster applies its log to the others; a server alone has no reader."""
    filtered = Stance("1", (Filter("Binlog_Do_DB", "app"),))
    assert hindrances({"db": filtered}, "db", {}, False) == []
    assert hindrances({"db": filtered}, "db", {}, True) == ["db has the filter Binlog_Do_DB = app"]


@pytest.mark.parametrize("dialect", ["mariadb", "mysql", "mysql-5.6", "mysql-5.5"])
def test_a_server_is_asked_in_its_dialect(monkeypatch, dialect):
    """Its log, its channels, its variables and its replicas."""
    words = dialects()[dialect]
    row = status_row(dialect, Replicate_Do_DB="app", Replicate_Ignore_DB="")
    server, connections = dialled_by(monkeypatch)(
        {
            words.log_status[0]: [{"File": "bin.1", "Position": 4, "Binlog_Do_DB": "", "Binlog_Ignore_DB": "tmp"}],
            words.channels or words.replica_status: [row],
            words.followers: [{"Server_Id" if dialect == "mysql" else "Server_id": 7, "Port": 3306}],
            "SHOW GLOBAL VARIABLES WHERE": [
                {"Variable_name": "server_id", "Value": "3"},
                {"Variable_name": "read_only", "Value": "ON"},
                {"Variable_name": "super_read_only", "Value": "OFF"},
            ],
        },
        dialect,
    )
    said = stance(server)

    assert [str(each) for each in said.filters] == ["Binlog_Ignore_DB = tmp", "Replicate_Do_DB = app"]
    assert said.followers == {"7"} and said.sources == ("toxiproxy",) and "read_only" in said.read_only
    assert all(each.startswith(("SHOW", "SELECT")) for each in connections[0].asked)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({}, ()),
        ({"SQL_Delay": 3600}, ("applies what toxiproxy writes 3600 s later (SQL_Delay)",)),
        (
            {"Slave_SQL_Running": "No", "Last_SQL_Error": "Duplicate entry '1'"},
            ("does not replicate from toxiproxy (IO thread runs, SQL thread stopped): Duplicate entry '1'",),
        ),
        (
            {"Slave_IO_Running": "Connecting"},
            ("does not replicate from toxiproxy (IO thread stopped, SQL thread runs)",),
        ),
    ],
)
def test_a_replica_that_does_not_apply_now_is_late(monkeypatch, row, why):
    """A drill would wait for it in vain; the server says why at once."""
    server, _ = dialled_by(monkeypatch)({"SHOW ALL SLAVES STATUS": [status_row("mariadb", **row)]})
    assert stance(server).late == why


@pytest.mark.parametrize(
    ("grants", "may"),
    [
        (["GRANT ALL PRIVILEGES ON *.* TO `root`@`%` IDENTIFIED BY PASSWORD '*1' WITH GRANT OPTION"], True),
        (["GRANT SELECT, INSERT, CREATE, DROP ON *.* TO `root`@`%` WITH GRANT OPTION"], True),
        (["GRANT USAGE ON *.* TO `app`@`%`", "GRANT ALL PRIVILEGES ON `la_`.* TO `app`@`%`"], True),
        # Roles may give more; what they give is not asked.
        (["GRANT USAGE ON *.* TO `app`@`%`", "GRANT `dba`@`%` TO `app`@`%`"], True),
        (["GRANT REPLICATION CLIENT ON *.* TO `app`@`%`", "GRANT ALL PRIVILEGES ON `app`.* TO `app`@`%`"], False),
        (["GRANT CREATE USER ON *.* TO `app`@`%`", "GRANT CREATE ON `l\\_b`.* TO `app`@`%`"], False),
    ],
)
def test_an_account_may_create_a_schema_by_its_grants(monkeypatch, grants, may):
    """Of the whole server, or of a pattern that fits; asked without a write."""
    server, _ = dialled_by(monkeypatch)({"SHOW GRANTS": [{"Grants": each} for each in grants]})
    assert stance(server).may_create is may


def test_replicas_that_cannot_be_asked_for_are_not_taken_for_none(monkeypatch):
    """Their filters would be unknown."""
    error = pymysql.err.OperationalError(1227, "Access denied")
    server, _ = dialled_by(monkeypatch)({"SHOW SLAVE HOSTS": error})
    assert stance(server).followers is None


def test_nothing_is_written_before_the_refusal(monkeypatch, refused):
    """Sabotage: a replica applies only its application's schema."""
    row = status_row("mariadb", Replicate_Do_DB="app")
    server, connections = dialled_by(monkeypatch)({"SHOW ALL SLAVES STATUS": [row]})
    error = refused(refuse_unfit, {"db": server}, "db", {"db": "elsewhere"}, "shop")

    assert "db has the filter Replicate_Do_DB = app" in error.found and error.next_step
    assert all(each.startswith("SHOW") for each in connections[0].asked)
