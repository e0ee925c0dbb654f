"""The load of a user's question: the published inserts, a script of sysbench's, or a file of the user's."""

import re

from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.question.sql_load import transactions
from replication_lab.model.question.sql_text import Statement, statements

INSERTS = "inserts"
# sysbench's scripts, and whether each transaction changes a row. Without bulk_insert: its events are no transactions.
SYSBENCH = {
    "oltp_delete": False,  # the row may be missing already
    "oltp_insert": True,
    "oltp_point_select": False,
    "oltp_read_only": False,
    "oltp_read_write": True,
    "oltp_update_index": True,
    "oltp_update_non_index": True,
    "oltp_write_only": True,
    "select_random_points": False,
    "select_random_ranges": False,
}
FORMS = (".sql", ".lua")
OTHER = "FILE.lua or FILE.sql"
# Bytes. The file becomes part of the record, which is read as a whole.
LARGEST = 16 << 20
HAS_EVENTS = re.compile(r"\bevent\b|\brequire\b|\bdofile\b")
# With one of these a dump would change only one copy, or tables that the load cannot reach and no check compares.
ON_ONE_COPY = re.compile(r"(?:/\*!\d*\s*)?SET\b.*\b(sql_log_bin|gtid_purged)\b", re.IGNORECASE | re.DOTALL)
ELSEWHERE = re.compile(
    r"(?:/\*!\d*\s*)?(?:(?:CREATE|DROP|ALTER)\s+(?:DATABASE|SCHEMA)\b|USE\s+(?!`?lab`?\s*$))", re.IGNORECASE
)


def refuse_bad_load(workload: str | GivenFile) -> None:
    """Raise LabError for an unknown load, or a file that cannot be a load."""
    if isinstance(workload, str):
        if workload not in (INSERTS, *SYSBENCH):
            raise unknown_name("workload", workload, (INSERTS, *SYSBENCH), other=OTHER)
        return
    _refuse_too_large(workload)
    if workload.name.endswith(".sql"):
        transactions(workload)
    elif not workload.name.endswith(".lua"):
        raise LabError(f"{workload.name} is neither .sql nor .lua", OTHER, "--workload load.sql")
    elif not HAS_EVENTS.search(workload.text):
        raise LabError(f"{workload.name} defines no function event", "a script for sysbench", "read docs/asking.md")


def statements_of(file: GivenFile | None) -> list[Statement]:
    """Return the statements of a schema or of initial rows. Raise LabError for a file that cannot be either."""
    if file is None:
        return []
    _refuse_too_large(file)
    found = statements(file)
    if not found:
        raise LabError(f"{file.name} holds no statement", "statements that end with ;")
    for statement in found:
        refuse_for_one_copy(file, statement)
        if ELSEWHERE.match(statement.sql):
            raise LabError(
                f"{file.name} line {statement.line}: `{statement.sql[:60]}` uses another database than lab",
                "tables in the database lab, which is the default database",
                "mysqldump DATABASE, without --databases",
            )
    return found


def refuse_for_one_copy(file: GivenFile, statement: Statement) -> None:
    """Raise LabError for a statement that would leave rows on one copy only."""
    if only := ON_ONE_COPY.match(statement.sql):
        raise LabError(
            f"{file.name} line {statement.line}: it sets {only[1]}, so the other copies would lack the rows",
            f"a file that does not set {only[1]}",
            "mysqldump --set-gtid-purged=OFF …",
        )


def _refuse_too_large(file: GivenFile) -> None:
    if len(file.text) > LARGEST:
        raise LabError(
            f"{file.name} has {len(file.text) >> 20} MiB",
            f"at most {LARGEST >> 20} MiB, because the record contains it",
            "make rows by --init: INSERT … SELECT",
        )
