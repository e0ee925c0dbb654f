"""The schema `lab` on a server that the lab did not start: made for a drill, removed with it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.world.mysql.server import Server

SCHEMA = "lab"
# A table that tells the lab's own schema from one that the project has by that name.
MARK = "made_by_replication_lab"


@contextmanager
def own_schema(server: Server) -> Iterator[None]:
    """Have the schema within the block; LabError if the project has one of that name, or the account cannot make it."""
    if _exists(server) and not _is_own(server):
        raise LabError(
            f"{server.name} has a schema {SCHEMA}, which the lab did not make",
            f"no schema {SCHEMA} in the project: the drill creates it for its clients' tables, and drops it",
            f'./lab sql {server.name} -e "SHOW TABLES FROM {SCHEMA}", and DROP SCHEMA {SCHEMA} if it is empty',
        )
    remove(server)
    with as_lab_error(
        LabError,
        f"the account on {server.name} cannot make a schema for the drill",
        "an account with all privileges, such as root",
        f"./lab detach, then attach again with --dsn {server.name}=@FILE",
    ):
        server.execute(f"CREATE SCHEMA {SCHEMA}")
        _mark(server)
    try:
        yield
    finally:
        remove(server)


def _mark(server: Server) -> None:
    """Mark the new schema as the lab's; remove it if that is impossible: nothing without the mark is removed later."""
    try:
        server.execute(f"CREATE TABLE {SCHEMA}.{MARK} (id INT PRIMARY KEY)")
    except BaseException:
        with suppress(LabError):
            server.execute(f"DROP SCHEMA {SCHEMA}")
        raise


def remove(server: Server) -> None:
    """Remove the schema if the lab made it."""
    if is_left(server):
        server.execute(f"DROP SCHEMA {SCHEMA}")


def is_left(server: Server) -> bool:
    """Return whether the server has a schema that the lab made."""
    return _exists(server) and _is_own(server)


def _exists(server: Server) -> bool:
    return bool(server.rows(f"SHOW DATABASES LIKE '{SCHEMA}'"))


def _is_own(server: Server) -> bool:
    return bool(server.rows(f"SHOW TABLES FROM {SCHEMA} LIKE '{MARK}'"))
