"""A server of a project that the lab did not start, with the first account that it accepts and that may ask it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

import msgspec
from docker.errors import APIError
from docker.models.containers import Container

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab import mysql_errors
from replication_lab.model.lab.server_version import Version
from replication_lab.world.docker.containers import environment_of
from replication_lab.world.mysql.accounts import FORM, RANDOM, Account, from_environment, version_for
from replication_lab.world.mysql.dialects import Dialect, dialect_of, dialects
from replication_lab.world.mysql.server import Server

# How a server names the privileges of which an account lacks all.
NEEDED = re.compile(r"at least one of\) the (.+?) privilege")


class AttachedServer(Server):
    """A server of the user's: applications' rights are those of the account that the lab has."""

    def as_application(self) -> Server:
        """Return the same server: the lab has only one account there."""
        return self


def server_at(name: str, address: tuple[str, int], account: Account) -> AttachedServer:
    """Return a server by its address, with the dialect of its version; LabError if it does not accept the account."""
    version = version_for(address, account)
    if version is None:
        raise LabError(
            f"{name} refuses the account {account.user} ({account.origin})", f"--dsn {FORM}", "./lab attach --help"
        )
    return _server(name, address, account, version)


def _server(name: str, address: tuple[str, int], account: Account, version: Version) -> AttachedServer:
    known = dialects()[dialect_of(version)]
    found = AttachedServer(name, address, known, {account.user: account.password}, user=account.user)
    if known.wait_for_file and found.settings("gtid_mode").get("gtid_mode", "OFF") != "ON":
        found.dialect = _without_gtids(found)
    return found


def _without_gtids(server: Server) -> Dialect:
    """Return the dialect with positions as files and places, by the first statement that the server knows."""
    known = server.dialect
    for statement in known.log_status:
        with suppress(LabError):
            server.rows(statement)
            return msgspec.structs.replace(known, position=statement, wait_for_position=known.wait_for_file)
    return known


def accepted(
    node: str, project: str, address: tuple[str, int], accounts: Iterable[Account], container: Container | None
) -> tuple[AttachedServer, Account]:
    """Return a server with the first of these accounts that it accepts, and that may ask it how it replicates.

    LabError if it does not answer or has no such account; `container` is its own.
    """
    denied = None
    for account in accounts:
        if version := version_for(address, account):
            server = _server(node, address, account, version)
            try:
                server.rows(server.dialect.channels or server.dialect.replica_status)
            except LabError as error:
                if not mysql_errors.is_denied(error.__cause__):
                    raise
                denied = denied or _may_not_ask(server, account, container, error.__cause__)
            else:
                return server, account
    raise denied or LabError(
        f"{node} of {project} accepts none of the accounts in its container's environment",
        f"--dsn {FORM}: an account that may read the state of replication, and create a schema for drills",
        f"./lab attach --help, which explains --dsn {node}=@FILE",
    )


def _may_not_ask(
    server: Server, account: Account, container: Container | None, error: BaseException | None
) -> LabError:
    """Return the error for an account that lacks a privilege, with the grant that the server names."""
    said = NEEDED.search(str(error))
    privileges = [each for each in (said[1].split(", ") if said else []) if each != "SUPER"]
    grant = privileges[0] if privileges else "REPLICATION CLIENT"
    user, _, host = str(server.value("SELECT CURRENT_USER()")).rpartition("@")
    has_random = any(name in RANDOM and value for name, value in environment_of(container).items())
    return LabError(
        f"{server.name} accepts the account {account.user} ({account.origin}), which may not ask how the server "
        f"replicates: it lacks {grant}",
        f"GRANT {grant} ON *.* TO '{user}'@'{host}', which suffices for links and `lab status`; or another account by "
        f"--dsn {server.name}=@FILE, with mysql://root:PASSWORD@ in FILE: drills need all privileges, as root has them",
        # The vendors' entrypoints write it into their log at the first start.
        f"docker logs {container.name} 2>&1 | grep 'GENERATED ROOT PASSWORD'"
        if container and has_random
        else f"./lab attach --help, which explains --dsn {server.name}=@FILE",
    )


def accounts_for(
    node: str, given: Mapping[str, Account], containers: Mapping[str, Container], nodes: Iterable[str]
) -> Iterator[Account]:
    """Yield the accounts that a server may accept: the given one, those of its container, those of the others.

    Servers that replicate have the accounts of their source, whatever the environment of their container is.
    """
    if node in given:
        yield given[node]
        return
    others = [each for each in nodes if each != node]
    seen = set()
    for each in (node, *others):
        found = [given[each]] if each in given and each != node else list(from_environment(*readable(each, containers)))
        for account in found:
            if (account.user, account.password) not in seen:
                seen.add((account.user, account.password))
                yield account


def readable(service: str, containers: Mapping[str, Container]) -> tuple[dict[str, str], Callable[[str], str]]:
    """Return the environment of a service's container, and a function that reads a file there."""
    container = containers.get(service)
    if container is None:
        return {}, lambda _path: ""
    return environment_of(container), lambda path: said_in(container, "cat", path)


def said_in(container: Container, *command: str) -> str:
    """Return the output of a command in a container; an empty string if it fails or cannot be run."""
    try:
        code, output = container.exec_run(list(command))
    except APIError:
        return ""
    return "" if code else bytes(output).decode(errors="replace")  # type: ignore[arg-type]  # no stream was asked for
