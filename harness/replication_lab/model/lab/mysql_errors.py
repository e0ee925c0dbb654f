"""MySQL's error numbers: what each means, and whether it rules out that the statement was committed."""

from typing import NamedTuple


class MySQLError(NamedTuple):
    """One error that the lab may meet.

    After an error that is not `definite`, the transaction may be committed or not. `conflict` is the way in which a
    writer lost against another one; it may try again.
    """

    meaning: str
    is_definite: bool = True
    conflict: str = ""


NO_CONNECTION, CONNECTION_LOST = 2003, 2013
# The errors of SET for a variable that needs a restart, and for a value that needs one.
READ_ONLY_VARIABLE, WRONG_ARGUMENTS = 1238, 1210
UNKNOWN_VARIABLE, SYNTAX_ERROR = 1193, 1064
# The errors of an account that lacks a privilege: of a schema, a table, a column, a routine, of the whole server.
DENIED = frozenset({1044, 1142, 1143, 1370, 1227})
# The client library's own numbers.
CLIENT_ERRORS = range(2000, 3000)
MYSQL_ERRORS = {
    1020: MySQLError("a row has changed since it was read", conflict="changed"),
    1026: MySQLError("error writing a file", is_definite=False),
    1030: MySQLError("error of the storage engine", is_definite=False),
    1047: MySQLError("this node does not serve"),
    1053: MySQLError("the server is being shut down", is_definite=False),
    1180: MySQLError("error during commit", is_definite=False),
    1205: MySQLError("lock wait timeout", conflict="timeout"),
    1213: MySQLError("deadlock: try again", conflict="deadlock"),
    1290: MySQLError("the server is read-only"),
    1317: MySQLError("interrupted", is_definite=False),
    1598: MySQLError("the binary log cannot be written", is_definite=False),
    1927: MySQLError("connection killed", is_definite=False),
    NO_CONNECTION: MySQLError("no connection"),
    2006: MySQLError("the server has gone away", is_definite=False),
    CONNECTION_LOST: MySQLError("connection lost", is_definite=False),
    # Of a plugin at the commit, such as that of a group whose majority was lost: others may have the transaction.
    3100: MySQLError("a hook of replication failed", is_definite=False),
    3101: MySQLError("rolled back during the commit", is_definite=False),
}
UNLISTED = MySQLError("")


def code_of(error: BaseException | None) -> int | None:
    """Return the number of a server's or the client library's error; None for any other, such as one of a socket."""
    code = error.args[0] if error is not None and error.args and not isinstance(error, OSError) else None
    return code if isinstance(code, int) and code else None


def is_lost(code: int | None) -> bool:
    """Return whether the connection was lost: an error of the client library, not of the server."""
    return code is None or code in CLIENT_ERRORS


def is_denied(error: BaseException | None) -> bool:
    """Return whether a server refused a statement because the account lacks a privilege."""
    return code_of(error) in DENIED


def is_definite(code: int | None) -> bool:
    """Return whether an error rules out that the statement was committed."""
    if code in MYSQL_ERRORS:
        return MYSQL_ERRORS[code].is_definite
    return not is_lost(code)


def is_timeout(error: BaseException | None) -> bool:
    """Return whether no answer came in time: the client library raises its own error while it handles that one."""
    return isinstance(error, TimeoutError) or (error is not None and isinstance(error.__context__, TimeoutError))


def is_refused(error: BaseException | None) -> bool:
    """Return whether nothing listened at the server's port, or the connection was ended, as by a server that stops."""
    refused = isinstance(error, ConnectionError) or (
        error is not None and isinstance(error.__context__, ConnectionError)
    )
    return refused or (code_of(error) == CONNECTION_LOST and error is not None and error.__context__ is None)


def conflict(code: int | None) -> str:
    """Return how a writer lost against another one, deadlock or timeout; an empty string if it did not."""
    return UNLISTED.conflict if code is None else MYSQL_ERRORS.get(code, UNLISTED).conflict


def meaning(code: int) -> str:
    """Return what an error number means; an empty string if the table lacks it."""
    return MYSQL_ERRORS.get(code, UNLISTED).meaning
