"""The account of a server that the lab did not start: given as a DSN, or in the environment of its container."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import pymysql

from replication_lab.model.errors import LabError
from replication_lab.model.server_version import Version, parse_version
from replication_lab.world.mysql import tls

FORM = "NODE=mysql://USER:PASSWORD@"
# The variables of the vendors' images that hold a password, each with its user's; of equal right, the first wins.
PASSWORDS = (
    ("MARIADB_ROOT_PASSWORD", "root", ""),
    ("MYSQL_ROOT_PASSWORD", "root", ""),
    ("MARIADB_PASSWORD", "", "MARIADB_USER"),
    ("MYSQL_PASSWORD", "", "MYSQL_USER"),
)
EMPTY = ("MARIADB_ALLOW_EMPTY_ROOT_PASSWORD", "MYSQL_ALLOW_EMPTY_PASSWORD", "ALLOW_EMPTY_PASSWORD")
DATABASES = ("MARIADB_DATABASE", "MYSQL_DATABASE")
CONNECT_SECONDS = 5


@dataclass(frozen=True)
class Account:
    """A user of a server; the password is left out of every message. `origin` says where it was found."""

    user: str
    password: str = field(repr=False)
    origin: str = ""


def parse_dsn(text: str) -> tuple[str, Account]:
    """Return the node and the account of NODE=mysql://USER:PASSWORD@…. Raise LabError, without the password."""
    node, _, dsn = text.partition("=")
    try:
        found = urlsplit(dsn)
    except ValueError:
        found = urlsplit("")
    if not node or found.scheme not in ("mysql", "mariadb") or not found.username:
        # Without the text: it may hold a password.
        raise LabError("the value of --dsn is not an account", f"{FORM}…", "--dsn db=mysql://root:PASSWORD@")
    return node, Account(unquote(found.username), unquote(found.password or ""), "--dsn")


def from_environment(found: Mapping[str, str], text_of: Callable[[str], str]) -> Iterator[Account]:
    """Yield the accounts in a container's environment, administrators first; `text_of` reads a file there."""
    for name, user, user_name in PASSWORDS:
        account = user or found.get(user_name, "")
        if not account:
            continue
        if found.get(name):
            yield Account(account, found[name], name)
        elif found.get(f"{name}_FILE"):
            # The vendors' entrypoints cut off the newline at the end of the file, as the shell does.
            yield Account(account, text_of(found[f"{name}_FILE"]).rstrip("\n"), f"{name}_FILE")
    if any(found.get(name, "").lower() in ("1", "yes", "true") for name in EMPTY):
        yield Account("root", "", "an empty password")


def database_from(found: Mapping[str, str], text_of: Callable[[str], str]) -> str:
    """Return the database that a container's environment names; an empty string if it names none."""
    for name in DATABASES:
        if said := found.get(name) or (text_of(found[f"{name}_FILE"]).strip() if found.get(f"{name}_FILE") else ""):
            return said
    return ""


def version_for(address: tuple[str, int], account: Account) -> Version | None:
    """Return the version of the server that accepts the account; None if it is refused, LabError if none answers."""
    host, port = address
    try:
        connection = tls.Connection(
            host=host,
            port=port,
            user=account.user,
            password=account.password,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=CONNECT_SECONDS,
        )
    except pymysql.err.OperationalError as error:
        if error.args and error.args[0] in (1045, 1044, 1130, 1698, 1227):
            return None
        raise LabError(
            f"the server at {host}:{port} does not answer: {error}", "a connection", "./lab status"
        ) from error
    except (pymysql.err.MySQLError, OSError, RuntimeError) as error:
        raise LabError(
            f"the server at {host}:{port} does not answer: {error}", "a connection", "./lab status"
        ) from error
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            [text] = cursor.fetchone() or [""]
        return parse_version(str(text))
    finally:
        connection.close()
