"""Copy a server's databases and its users' accounts to another one by SQL, with its position in the binary log.

First all tables with their rows, then what refers to them: routines, views, triggers, events, privileges. With its
trigger a table would change others a second time.
"""

import re
from collections.abc import Iterable
from typing import Any

import pymysql

from replication_lab.model.lab.mysql_errors import SYNTAX_ERROR, code_of
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.server import SYSTEM_DATABASES, Connection, Server, rows_of

Row = dict[str, Any]
ROWS_AT_A_TIME = 1000
# The same moment in both sessions, also in an hour that a change of the clock repeats.
SAME_TIME = "SET SESSION time_zone = '+00:00'"
# A zero stays a zero where a server would put the next number in its place.
AS_IT_IS = "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'"
# The server computes these columns.
COMPUTED = re.compile(r"\b(?:VIRTUAL|PERSISTENT|STORED GENERATED)\b")
# Servers and their packages make these accounts, each for itself; so does the lab (`Server.passwords`).
SYSTEM_ACCOUNTS = ("", "PUBLIC", "mysql", "healthcheck", "debian-sys-maint")
# The errors of a view of which a part is not there (yet): database, column, table, routine, or what a view reads.
MISSING_PARTS = (1049, 1054, 1146, 1305, 1356)
IS_ENABLED = re.compile(r"(ON COMPLETION (?:NOT )?PRESERVE) ENABLE")


def clone(source: Server, target: Server) -> str:
    """Replace the databases and users of `target` by those of `source`; return their GTIDs. Writers on `source` wait.

    Events are disabled on `target`, as on any replica.
    """
    with source.session(database="") as reader, target.session(database="") as writer:
        _execute(reader, "FLUSH TABLES WITH READ LOCK", SAME_TIME)
        gtids = BinaryLog(source).gtids()
        _execute(writer, "SET SESSION sql_log_bin = 0", "SET SESSION foreign_key_checks = 0", SAME_TIME, AS_IT_IS)
        _execute(writer, *(f"DROP DATABASE `{database}`" for database in _databases(writer)))
        _execute(writer, *(f"DROP {kind} {account}" for account, kind in _accounts(target, writer)))
        accounts = _accounts(source, reader)
        for account, kind in accounts:
            _execute(writer, *_creation(reader, account, kind))
        for database in _databases(reader):
            _execute(writer, _text(_created(reader, f"DATABASE `{database}`")), f"USE `{database}`")
            for table in _named(reader, f"SHOW FULL TABLES FROM `{database}` WHERE Table_type <> 'VIEW'"):
                _copy_table(reader, writer, f"`{database}`.`{table}`")
        _copy_programs(reader, writer, target.dialect.disabled_event)
        for account, _ in accounts:
            _execute(writer, *_named(reader, f"SHOW GRANTS FOR {account}"))
        _execute(reader, "UNLOCK TABLES")
    return gtids


def _databases(connection: Connection) -> list[str]:
    return [name for name in _named(connection, "SHOW DATABASES") if name not in SYSTEM_DATABASES]


# --- tables -----------------------------------------------------------------------------------------------------------


def _copy_table(reader: Connection, writer: Connection, table: str) -> None:
    _execute(writer, _text(_created(reader, f"TABLE {table}")))
    # By their names: * would leave out an invisible column.
    columns = ", ".join(
        f"`{row['Field']}`"
        for row in rows_of(reader, f"SHOW COLUMNS FROM {table}")
        if not COMPUTED.search(row["Extra"].upper())
    )
    with reader.cursor(pymysql.cursors.SSCursor) as unread, writer.cursor() as cursor:
        unread.execute(f"SELECT {columns} FROM {table}")
        while rows := unread.fetchmany(ROWS_AT_A_TIME):
            places = ", ".join(["%s"] * len(rows[0]))
            cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", rows)


# --- what refers to tables --------------------------------------------------------------------------------------------


def _copy_programs(reader: Connection, writer: Connection, disabled: str) -> None:
    databases = _databases(reader)
    for database in databases:
        where = f"SELECT * FROM information_schema.{{}} WHERE {{}}_SCHEMA = '{database}'"
        for row in rows_of(reader, where.format("ROUTINES", "ROUTINE")):
            _create(writer, database, _created(reader, f"{row['ROUTINE_TYPE']} `{database}`.`{row['ROUTINE_NAME']}`"))
    _copy_views(reader, writer, databases)
    for database in databases:
        where = f"SELECT * FROM information_schema.{{}} WHERE {{}}_SCHEMA = '{database}'"
        for row in rows_of(reader, f"{where.format('TRIGGERS', 'TRIGGER')} ORDER BY ACTION_ORDER"):
            _create(writer, database, _created(reader, f"TRIGGER `{database}`.`{row['TRIGGER_NAME']}`"))
        for row in rows_of(reader, where.format("EVENTS", "EVENT")):
            event = _created(reader, f"EVENT `{database}`.`{row['EVENT_NAME']}`")
            text = IS_ENABLED.sub(rf"\1 {disabled}", event["Create Event"], count=1)
            _create(writer, database, {**event, "Create Event": text})


def _copy_views(reader: Connection, writer: Connection, databases: Iterable[str]) -> None:
    """Create views in the order in which they refer to one another. One that its own server cannot read is left out."""
    views = [
        (database, name)
        for database in databases
        for name in _named(reader, f"SHOW FULL TABLES FROM `{database}` WHERE Table_type = 'VIEW'")
    ]
    left = len(views) + 1
    while len(views) < left:
        left = len(views)
        views = [(database, name) for database, name in views if not _is_view_created(reader, writer, database, name)]


def _is_view_created(reader: Connection, writer: Connection, database: str, name: str) -> bool:
    try:
        _create(writer, database, _created(reader, f"VIEW `{database}`.`{name}`"))
    except pymysql.err.MySQLError as error:
        if code_of(error) in MISSING_PARTS:
            return False
        raise
    return True


def _create(writer: Connection, database: str, found: Row) -> None:
    """Create what SHOW CREATE has found, under the settings under which it was created."""
    settings = {
        "sql_mode": found.get("sql_mode", ""),
        "collation_connection": found["collation_connection"],
        "time_zone": found.get("time_zone", "+00:00"),
    }
    with writer.cursor() as cursor:
        for name, value in settings.items():
            cursor.execute(f"SET SESSION {name} = %s", (value,))
        cursor.execute(f"USE `{database}`")
        cursor.execute(_text(found))


# --- accounts ---------------------------------------------------------------------------------------------------------


def _accounts(server: Server, connection: Connection) -> list[tuple[str, str]]:
    """Return the users' accounts, each with USER or ROLE; roles first, because a user can have one by default."""
    rows = [
        row
        for row in rows_of(connection, "SELECT * FROM mysql.user")
        if row["User"] not in (*SYSTEM_ACCOUNTS, *server.passwords) and "." not in row["User"]
    ]
    # A role of MySQL is an account that is locked, one of MariaDB has no host.
    rows.sort(key=lambda row: "Y" not in (row.get("is_role"), row.get("account_locked")))
    return [
        (connection.escape(row["User"]), "ROLE")
        if row.get("is_role") == "Y"
        else (f"{connection.escape(row['User'])}@{connection.escape(row['Host'])}", "USER")
        for row in rows
    ]


def _creation(reader: Connection, account: str, kind: str) -> list[str]:
    if kind == "ROLE":
        return [f"CREATE ROLE {account}"]
    try:
        return [_text(_created(reader, f"USER {account}"))]
    except pymysql.err.ProgrammingError as error:
        # Before MySQL 5.7 the grants create the account.
        if code_of(error) != SYNTAX_ERROR:
            raise
        return []


# --- statements -------------------------------------------------------------------------------------------------------


def _created(reader: Connection, what: str) -> Row:
    return rows_of(reader, f"SHOW CREATE {what}")[0]


def _text(found: Row) -> str:
    """Return the statement in a row of SHOW CREATE, whose column has another name for each kind of thing."""
    names = [name for name in found if name.upper().startswith("CREATE ") or name == "SQL Original Statement"]
    return str(found[names[0]])


def _execute(connection: Connection, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _named(connection: Connection, statement: str) -> list[str]:
    """Return the first column of a statement's rows."""
    return [str(next(iter(row.values()))) for row in rows_of(connection, statement)]
