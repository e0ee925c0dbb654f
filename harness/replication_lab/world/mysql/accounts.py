"""The account of a server that the lab did not start: given as a DSN, or in the environment of its container."""

import os
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pymysql

from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.model.lab.mysql_errors import code_of
from replication_lab.model.lab.server_version import Version, parse_version
from replication_lab.world.mysql import tls

ACCOUNT = "mysql://USER:PASSWORD@"
# The origin of an account that is an argument, which every user of the host can read.
AS_TYPED = "--dsn"
FORM = f"NODE=@FILE, with {ACCOUNT} in FILE"
# The variables of the vendors' images that hold a password, each with its user's; of equal right, the first wins.
PASSWORDS = (
    ("MARIADB_ROOT_PASSWORD", "root", ""),
    ("MYSQL_ROOT_PASSWORD", "root", ""),
    ("MARIADB_PASSWORD", "", "MARIADB_USER"),
    ("MYSQL_PASSWORD", "", "MYSQL_USER"),
)
EMPTY = ("MARIADB_ALLOW_EMPTY_ROOT_PASSWORD", "MYSQL_ALLOW_EMPTY_PASSWORD", "ALLOW_EMPTY_PASSWORD")
# The variables that let a server choose its root's password at its first start.
RANDOM = ("MARIADB_RANDOM_ROOT_PASSWORD", "MYSQL_RANDOM_ROOT_PASSWORD")
DATABASES = ("MARIADB_DATABASE", "MYSQL_DATABASE")
CONNECT_SECONDS = 5
# The server's errors for an account, a host or a plugin of authentication that it does not accept.
REFUSED = (1044, 1045, 1130, 1227, 1698)


class NoAnswer(LabError):
    """An error for a server that accepts no connection."""


@dataclass(frozen=True)
class Account:
    """A user of a server; the password is left out of every message. `origin` says where it was found."""

    user: str
    password: str = field(repr=False)
    origin: str = ""


def parse_dsn(text: str) -> tuple[str, Account]:
    """Return the node and the account of NODE=mysql://USER:PASSWORD@… or NODE=@FILE; LabError without the password."""
    node, _, dsn = text.partition("=")
    file = dsn.removeprefix("@") if dsn.startswith("@") else ""
    account = _account(_content(Path(file).expanduser()) if file else dsn, file or AS_TYPED)
    if not node or not account:
        # Without the text: it may hold a password.
        found = f"{file} has no account" if file else "the value of --dsn is not an account"
        raise LabError(found, f"--dsn {FORM}", "--dsn db=@FILE")
    return node, account


def _content(file: Path) -> str:
    with as_lab_error(OSError, f"{file} cannot be read", f"a file with {ACCOUNT}", f"ls -l {file}"):
        with file.open(errors="replace") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            if mode & 0o077:
                raise LabError(
                    f"{file} can be used by other users of this host (mode {mode:04o})",
                    "a file that only its owner can read",
                    f"chmod 600 {shlex.quote(str(file))}",
                )
            return opened.read().strip()


def _account(dsn: str, origin: str) -> Account | None:
    try:
        found = urlsplit(dsn)
    except ValueError:
        found = urlsplit("")
    if found.scheme not in ("mysql", "mariadb") or not found.username:
        return None
    return Account(unquote(found.username), unquote(found.password or ""), origin)


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
    # The vendors' entrypoints take any value, also "no". An account that a server refuses does no harm.
    if any(found.get(name) for name in EMPTY):
        yield Account("root", "", "an empty password")


def database_from(found: Mapping[str, str], text_of: Callable[[str], str]) -> str:
    """Return the database that a container's environment names; an empty string if it names none."""
    for name in DATABASES:
        if said := found.get(name) or (text_of(found[f"{name}_FILE"]).strip() if found.get(f"{name}_FILE") else ""):
            return said
    return ""


def version_for(address: tuple[str, int], account: Account) -> Version | None:
    """Return the version of the server that accepts the account; None if it is refused, NoAnswer if none answers."""
    host, port = address
    try:
        connection = tls.TlsConnection(
            host=host,
            port=port,
            user=account.user,
            password=account.password,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=CONNECT_SECONDS,
        )
    except (pymysql.err.MySQLError, OSError, RuntimeError) as error:
        if isinstance(error, pymysql.err.OperationalError) and code_of(error) in REFUSED:
            return None
        raise NoAnswer(
            f"the server at {host}:{port} does not answer: {error}", "a connection", "./lab status"
        ) from error
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            [text] = cursor.fetchone() or [""]
        return parse_version(str(text))
    finally:
        connection.close()
