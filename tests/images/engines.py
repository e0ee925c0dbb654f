"""What differs between the servers, as far as the tests of their images need to know it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Engine:
    """One database image: its name, and how its servers replicate."""

    image: str
    source_flags: tuple[str, ...]
    follow_source: str
    start_replica: str
    stop_replica: str
    has_server_uuid: bool = True


_OLD_GTID_FLAGS = ("--log-bin=bin", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-slave-updates")
_CHANGE_MASTER_TO_BY_GTID = """
CHANGE MASTER TO
    MASTER_HOST = '{host}', MASTER_USER = '{user}', MASTER_PASSWORD = '{password}', MASTER_CONNECT_RETRY = 1,
    MASTER_AUTO_POSITION = 1;
"""
_GTID_FLAGS = ("--log-bin=bin", "--gtid-mode=ON", "--enforce-gtid-consistency=ON")
# Over several lines and with comments on purpose: the entrypoint has to make one line of it for an init file.
_CHANGE_REPLICATION_SOURCE = """
-- follow the source
CHANGE REPLICATION SOURCE TO
    SOURCE_HOST = '{host}', SOURCE_USER = '{user}', SOURCE_PASSWORD = '{password}', -- generated
    SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1;
"""


def _mariadb(name: str) -> Engine:
    return Engine(
        image=f"replication-lab/{name}",
        source_flags=("--log-bin=bin", "--gtid-strict-mode=1"),
        # PREPARE and EXECUTE, because that is how a hook puts a variable into this statement.
        follow_source="""
SET @follow = CONCAT("CHANGE MASTER TO MASTER_HOST = '{host}', MASTER_USER = '{user}', ",
    "MASTER_PASSWORD = '{password}', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1, ",
    "MASTER_SSL = 0, MASTER_SSL_VERIFY_SERVER_CERT = 0");
PREPARE follow FROM @follow;
EXECUTE follow;
DEALLOCATE PREPARE follow;
""",
        start_replica="START SLAVE",
        stop_replica="STOP SLAVE",
        has_server_uuid=False,
    )


def _old_mysql(name: str) -> Engine:
    return Engine(
        image=f"replication-lab/{name}",
        source_flags=_OLD_GTID_FLAGS,
        follow_source=_CHANGE_MASTER_TO_BY_GTID,
        start_replica="START SLAVE",
        stop_replica="STOP SLAVE",
    )


ENGINES = {
    "mariadb": _mariadb("mariadb"),
    "mysql-8.0": Engine(
        image="replication-lab/mysql-8.0",
        source_flags=_GTID_FLAGS,
        follow_source=_CHANGE_REPLICATION_SOURCE,
        start_replica="START REPLICA",
        stop_replica="STOP REPLICA",
    ),
    "mysql-5.5": Engine(
        image="replication-lab/mysql-5.5",
        source_flags=("--log-bin=bin",),
        follow_source="""
CHANGE MASTER TO
    MASTER_HOST = '{host}', MASTER_USER = '{user}', MASTER_PASSWORD = '{password}', MASTER_CONNECT_RETRY = 1;
""",
        start_replica="START SLAVE",
        stop_replica="STOP SLAVE",
        has_server_uuid=False,
    ),
    "mysql-5.6": _old_mysql("mysql-5.6"),
    "mysql-5.7": _old_mysql("mysql-5.7"),
    "mariadb-10.1": _mariadb("mariadb-10.1"),
    "mariadb-10.2": _mariadb("mariadb-10.2"),
    "mariadb-10.11": _mariadb("mariadb-10.11"),
    "mariadb-10.11-galera": _mariadb("mariadb-10.11-galera"),
    "mysql": Engine(
        image="replication-lab/mysql",
        source_flags=_GTID_FLAGS,
        follow_source=_CHANGE_REPLICATION_SOURCE,
        start_replica="START REPLICA",
        stop_replica="STOP REPLICA",
    ),
}
# What `make test` builds and tries; the rest is tried with --lab-engine all.
QUICK = ("mariadb", "mysql-8.0")
