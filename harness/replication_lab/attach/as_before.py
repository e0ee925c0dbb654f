"""Whether every server of a project is healthy and replicates as before: each channel, each member of a cluster."""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

from replication_lab.attach.servers import ServersOfProject
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.progress import Tell
from replication_lab.model.lab.attachment import Attachment, Replicating
from replication_lab.replication.group import ONLINE, member
from replication_lab.world import clock
from replication_lab.world.docker import compose_call
from replication_lab.world.docker.compose_call import Container
from replication_lab.world.docker.containers import environment_of
from replication_lab.world.mysql import own_schema
from replication_lab.world.mysql.accounts import PASSWORDS, Account
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.features import features_of
from replication_lab.world.mysql.galera import GaleraNode
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync
from replication_lab.world.mysql.server import Server

# A recreated server may have to recover, and a member to join again.
SECONDS = 180
LOG_LINES, SEARCHED_LINES = 12, 1000
# How long threads may be stopped without an error: a server starts them right after its own start.
STOPPED_SECONDS = 15
RELAY_LOG = "relay log"
# Clients may write meanwhile.
LEVEL_SECONDS = 2


class NotAsBefore(LabError):
    """An error for a project whose servers do not run or replicate as before the lab was attached."""


@dataclass(frozen=True)
class Trouble:
    """What is not as before at a server; `ended` if it does not become so by itself, `statement` repairs it.

    `unexplained` threads are stopped without an error: only the server's log says why. `again` is the statement for a
    replica that has lost its relay log.
    """

    said: str
    ended: bool = False
    statement: str = ""
    unexplained: bool = False
    again: str = ""


def look(server: Server, port: int, container: Container | None = None, source: Server | None = None) -> Replicating:
    """Return how a server replicates now, in its container; `source` is the one that it follows."""
    running = {name: each for name, each in Replica(server).channels().items() if each.healthy}
    semisync = SemiSync(server).status()
    return Replicating(
        port=port,
        channels={name: f"{each.host}:{each.port}" for name, each in running.items()},
        members=_members(server),
        acknowledging=semisync.replicas if semisync.active else 0,
        healthy=container is None or is_healthy(container),
        level_with=source.name if source and not _behind(server, source) else "",
    )


def _behind(server: Server, source: Server) -> str:
    """Return why a replica has not applied what its source has now; an empty string if it has, or soon after."""
    try:
        Replica(server).wait_for(BinaryLog(source).position(), LEVEL_SECONDS)
    except LabError as error:
        return error.found
    return ""


def _members(server: Server) -> int:
    """Return how many members of its cluster a server that serves sees; 0 if it is in none."""
    kinds = features_of(server)
    try:
        if "galera" in kinds:
            galera = GaleraNode(server).status()
            return galera.size if galera.synced else 0
        if "group" in kinds:
            return sum(state == ONLINE for state in member(server).states.values())
    except LabError:
        # It has the program, and is not in a cluster now.
        return 0
    return 0


def is_healthy(container: Container) -> bool:
    """Return whether a container runs, and its health check says that it is well if it has one."""
    health = container.attrs["State"].get("Health", {}).get("Status", "healthy")
    return container.status == "running" and health == "healthy"


def ended(container: Container) -> str:
    """Return that a container has ended, with the end of its log if it has one."""
    log = container.logs(tail=LOG_LINES).decode(errors="replace").strip().replace("\n", "\n  ")
    return f"{container.name} has ended" + (f". Its log:\n  {log}" if log else "")


def troubles(before: Replicating, server: Server) -> Iterator[Trouble]:
    """Yield what is not as before at a server that answers."""
    dialect = server.dialect
    channels, now = Replica(server).channels(), look(server, before.port)
    for name, address in before.channels.items():
        found = channels.get(name)
        of = f" of the channel {name}" if name else ""
        start = _for_channel(dialect.start, name, dialect.family)
        again = f"{_for_channel(dialect.stop, name, dialect.family)}; {dialect.again}; {start}"
        if found is None:
            yield Trouble(f"it no longer replicates{of} from {address}", ended=True)
        elif found.ended:
            yield Trouble(found.ended, True, again if RELAY_LOG in found.ended.lower() else start)
        elif not found.healthy:
            said = f"{found.threads}{of}{f': {found.error}' if found.error else ''}"
            yield Trouble(said, False, start, not (found.applying or found.error), again)
    if now.members < before.members:
        yield Trouble(f"it sees {now.members} members of its cluster, and saw {before.members} before")
    if now.acknowledging < before.acknowledging:
        yield Trouble(f"{now.acknowledging} replicas acknowledge its commits, and {before.acknowledging} did before")


def _for_channel(statement: str, channel: str, family: str) -> str:
    if not channel:
        return statement
    return f"{statement} '{channel}'" if family == "mariadb" else f"{statement} FOR CHANNEL '{channel}'"


def wait(attached: Attachment, accounts: Mapping[str, Account], tell: Tell, *, is_over: bool) -> None:
    """Wait until every server is as before; NotAsBefore, with its own error and what repairs it, if one is not.

    `is_over` is whether the project is detached: nothing that the lab wrote may be left then.
    """
    project, done, errors = attached.compose.project, list[str](), list[NotAsBefore]()
    until = clock.timer() + SECONDS
    # When each server last gave another reason than threads that are stopped without an error.
    explained: dict[str, float] = {}
    waiting = dict(attached.servers)
    while waiting:
        containers = compose_call.containers(project)
        there = {str(each.name): (node, each) for node, found in containers.items() for each in found}
        # What the user has removed meanwhile is not created again.
        waiting = {name: each for name, each in waiting.items() if name in there}
        ports = {there[name][0]: each.port for name, each in attached.servers.items() if name in there}
        servers = ServersOfProject(project, ports, containers, accounts)
        for name, before in [*waiting.items()]:
            node, container = there[name]
            trouble = _trouble(node, before, servers.of(node, container), is_over)
            if name not in explained or not (trouble and trouble.unexplained):
                explained[name] = clock.timer()
            if trouble is None:
                done.append(servers.called(node, container))
                del waiting[name]
            elif trouble.ended or clock.timer() > until or clock.timer() > explained[name] + STOPPED_SECONDS:
                called = f"{servers.called(node, container)} of {project}"
                errors.append(_error(called, before, trouble, container, servers.of(node, container).account(node)))
                del waiting[name]
                # Others that are not as before are told with it.
                until = min(until, clock.timer() + STOPPED_SECONDS)
        if waiting:
            clock.pause(0.2)
    if done:
        tell(f"  verified: {', '.join(sorted(done))}: healthy, and replicating as before")
    if errors:
        found, next_step = "\n  ".join(each.found for each in errors), " && ".join(each.next_step for each in errors)
        raise NotAsBefore(found, errors[0].expected, next_step)


def _trouble(node: str, before: Replicating, servers: ServersOfProject, is_over: bool) -> Trouble | None:
    container = servers.containers[node][0]
    # One that was stopped, and then recreated, is not started again.
    if container.status in ("exited", "created"):
        return Trouble(ended(container), ended=True)
    if before.healthy and not is_healthy(container):
        return Trouble(f"{container.name} is not healthy")
    try:
        with closing(servers.server(node)) as server:
            if is_over and own_schema.is_left(server):
                said = f"it still has the schema {own_schema.SCHEMA}"
                return Trouble(said, statement=f"DROP SCHEMA {own_schema.SCHEMA}")
            found = next(troubles(before, server), None)
            if found or before.level_with not in servers.containers:
                return found
            # A replica that runs may stop at the next statement.
            with closing(servers.server(before.level_with)) as source:
                behind = _behind(server, source)
            return next(troubles(before, server), Trouble(behind)) if behind else None
    except LabError as error:
        return Trouble(error.found)


def _error(
    called: str, before: Replicating, found: Trouble, container: Container, account: Account | None
) -> NotAsBefore:
    log = ""
    if found.unexplained:
        # The last errors in the server's log: clients' health checks may have filled its end.
        lines = container.logs(tail=SEARCHED_LINES).decode(errors="replace").splitlines()
        errors = [line for line in lines if "[ERROR]" in line]
        log = "".join(f"\n  {line}" for line in errors[-LOG_LINES:])
    if found.statement:
        statement = found.again if RELAY_LOG in log.lower() else found.statement
        next_step = by_hand(container, statement, account)
    elif container.status != "running":
        next_step = f"docker start {container.name}"
    else:
        next_step = f"docker logs --tail 50 {container.name}"
    replicated = f", which replicated from {', '.join(before.channels.values())}" if before.channels else ""
    return NotAsBefore(
        f"{called}{replicated}, is not as before: {found.said}{log}",
        "every server healthy and replicating as before it was attached",
        next_step,
    )


def by_hand(container: Container, statement: str, account: Account | None) -> str:
    """Return the command that runs a statement in a server's container, without the lab and without a password."""
    program = '"$(command -v mariadb || command -v mysql)"'
    origin = account.origin if account else ""
    user = account.user if account else "root"
    if origin.removesuffix("_FILE") in {name for name, *_ in PASSWORDS} and origin in environment_of(container):
        value = f'"$(cat "${origin}")"' if origin.endswith("_FILE") else f'"${origin}"'
        inside = f'MYSQL_PWD={value} exec {program} -u{user} -e "{statement}"'
        return f"docker exec {container.name} sh -c {shlex.quote(inside)}"
    asks = " --password" if account is None or account.password else ""
    inside = f'exec {program} -u{user}{asks} -e "{statement}"'
    return f"docker exec {'-it ' if asks else ''}{container.name} sh -c {shlex.quote(inside)}"


def after_restoring(attached: Attachment, accounts: Mapping[str, Account], tell: Tell, error: LabError) -> LabError:
    """Return the error of an attachment that was undone: NotAsBefore if the project is not as before."""
    try:
        wait(attached, accounts, tell, is_over=True)
    except NotAsBefore as now:
        return NotAsBefore(f"{error.found}; the project was restored, and {now.found}", now.expected, now.next_step)
    except LabError:
        # Such as an engine that has ended: the first error is the one to tell.
        return error
    return error
