"""Whether a drill may write into the servers of a project: asked before its first statement, from every server.

A drill creates the schema `lab`, and its tables there. A filter of replication can let one of these statements pass
and keep another one back: the next one then stops the replica.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.mysql_errors import SYNTAX_ERROR, code_of, is_denied
from replication_lab.workloads import ledger
from replication_lab.world.mysql.own_schema import MARK, SCHEMA
from replication_lab.world.mysql.replica import Replica, ReplicaStatus
from replication_lab.world.mysql.server import Server

# The variables by which a server refuses writes of applications, or of all.
READ_ONLY = ("read_only", "super_read_only", "innodb_read_only", "tx_read_only", "transaction_read_only")
# What a drill writes: its tables.
WRITTEN = (f"{SCHEMA}.{MARK}", ledger.TABLE, ledger.HOT)
# A grant as a server prints it: the privileges, and the schema with its quotes, which may be a pattern of LIKE.
GRANT = re.compile(r"GRANT (?P<privileges>.+) ON (?P<schema>`.+`|\*)\.\* TO ")
# Settings that begin like filters and are none.
NO_FILTERS = ("replicate_annotate_row_events", "replicate_events_marked_for_skip", "replicate_same_server_id")


@dataclass(frozen=True)
class Filter:
    """A filter of a server's binary log (Binlog_…) or of what it applies (Replicate_…), as the server names it."""

    name: str
    value: str
    channel: str = ""

    @property
    def is_of_log(self) -> bool:
        return self.name.lower().startswith("binlog_")

    def __str__(self) -> str:
        of = f" of the channel {self.channel}" if self.channel else ""
        return f"{self.name} = {self.value}{of}"

    @property
    def hinders(self) -> bool:
        """Whether it keeps back any of what a drill writes, or may do so."""
        name, listed = self.name.lower(), [each.strip() for each in self.value.split(",")]
        if name.endswith("_do_db"):
            return SCHEMA not in listed
        if name.endswith("_ignore_db"):
            return SCHEMA in listed
        if name.endswith("_do_table"):
            return not all(any(_matches(table, each) for each in listed) for table in WRITTEN)
        if name.endswith("_ignore_table"):
            return any(_matches(table, each) for table in WRITTEN for each in listed)
        if name.endswith("_rewrite_db"):
            return re.search(rf"\b{SCHEMA}\b", self.value) is not None
        # Of servers and domains: which of them write is not known to the lab.
        return True


def _matches(table: str, pattern: str) -> bool:
    """Return whether a table's name fits a pattern of LIKE; one without wildcards is a name."""
    parts = re.findall(r"\\.|.", pattern)
    shell = "".join({"%": "*", "_": "?"}.get(part, f"[{part[-1]}]") for part in parts)
    return fnmatchcase(table, shell)


@dataclass(frozen=True)
class Stance:
    """What a server says of writes: its number, its filters, the variables that refuse writes, whom it follows.

    `followers` are the numbers of the replicas that are connected to it, None if the account may not ask. `sources` are
    the hosts that it replicates from, and `late` is why it does not apply now what these write, in words. `may_create`
    is whether the account may create a drill's schema.
    """

    number: str
    filters: tuple[Filter, ...] = ()
    read_only: tuple[str, ...] = ()
    followers: frozenset[str] | None = frozenset()
    sources: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    may_create: bool = True


def stance(server: Server) -> Stance:
    """Return what a server says of writes; LabError if it does not answer, or the account may not ask."""
    rows = Replica(server).channel_rows()
    of_channels = (
        Filter(name, str(value), channel)
        for channel, row in rows.items()
        for name, value in row.items()
        if name.lower().startswith("replicate_") and value
    )
    refuses = server.settings(*READ_ONLY)
    return Stance(
        number=server.settings("server_id").get("server_id", ""),
        filters=(*_of_log(server), *of_channels, *(() if rows else _of_variables(server))),
        read_only=tuple(name for name, value in refuses.items() if value not in ("OFF", "0", "")),
        followers=_followers(server),
        sources=tuple(str(row[server.dialect.columns.host]) for row in rows.values()),
        late=tuple(filter(None, map(_why_late, Replica(server).channels().values()))),
        may_create=_may_create(server),
    )


def _why_late(channel: ReplicaStatus) -> str:
    """Return why a replica does not apply now what its source writes; an empty string if it does."""
    if not channel.healthy:
        error = f": {channel.error}" if channel.error else ""
        return f"does not replicate from {channel.host} ({channel.threads}){error}"
    seconds = channel.delay_seconds
    return f"applies what {channel.host} writes {seconds} s later (SQL_Delay)" if seconds else ""


def _of_log(server: Server) -> Iterator[Filter]:
    known = server.dialect.log_status
    for number, statement in enumerate(known, 1):
        try:
            rows = server.rows(statement)
        except LabError as error:
            # Versions spell it differently.
            if number == len(known) or code_of(error.__cause__) != SYNTAX_ERROR:
                raise
            continue
        for row in rows:
            yield from (Filter(name, str(row[name])) for name in ("Binlog_Do_DB", "Binlog_Ignore_DB") if row.get(name))
        return


def _of_variables(server: Server) -> Iterator[Filter]:
    """Yield the filters of a server without a channel: those of a cluster's applier are only in its variables."""
    for row in server.rows("SHOW GLOBAL VARIABLES LIKE 'replicate\\_%'"):
        if row["Value"] and row["Variable_name"] not in NO_FILTERS:
            yield Filter(row["Variable_name"], str(row["Value"]))


def _followers(server: Server) -> frozenset[str] | None:
    """Return the numbers of the replicas that are connected to a server; None if the account may not ask."""
    try:
        rows = server.rows(server.dialect.followers)
    except LabError as error:
        return None if is_denied(error.__cause__) else frozenset()
    # MariaDB writes Server_id, MySQL Server_Id.
    return frozenset(str(value) for row in rows for name, value in row.items() if name.lower() == "server_id")


def _may_create(server: Server) -> bool:
    """Return whether the account may create the schema, as far as its grants tell: a role may give it more."""
    grants = [str(next(iter(row.values()))) for row in server.rows("SHOW GRANTS")]
    if any(" ON " not in each for each in grants):
        return True
    found = (GRANT.match(each) for each in grants)
    return any(
        {"ALL PRIVILEGES", "CREATE"} & set(each["privileges"].split(", "))
        and (each["schema"] == "*" or _matches(SCHEMA, each["schema"].strip("`")))
        for each in found
        if each
    )


def hindrances(seen: Mapping[str, Stance], writer: str, follows: Mapping[str, str], is_cluster: bool) -> list[str]:
    """Return why a drill must not write at `writer`, in words: by filters, read-only state, servers not seen or late.

    An empty `writer` is not known yet.
    """
    known, found = {each.number for each in seen.values()}, []
    for node, each in seen.items():
        # The filters of a log matter where somebody reads it.
        is_read = is_cluster or node in follows.values() or each.followers
        found += [f"{node} {why}" for why in each.late]
        filters = [one for one in each.filters if one.hinders and (is_read or not one.is_of_log)]
        found += [f"{node} has the filter {one}" for one in filters]
        if each.followers is None:
            found.append(f"the account on {node} may not ask which replicas are connected to it")
        elif unseen := sorted(each.followers - known):
            found.append(f"{node} has a replica that the lab does not see (server_id {', '.join(unseen)})")
        if (not writer or node == writer) and not each.may_create:
            found.append(f"the account on {node} may not create that schema")
        if node not in follows and each.sources:
            found.append(f"{node} itself replicates from {', '.join(each.sources)}, which the lab does not see")
    if writer and seen[writer].read_only:
        found.append(f"{writer} is read-only ({', '.join(seen[writer].read_only)})")
    return found


def refuse_unfit(servers: Mapping[str, Server], writer: str, follows: Mapping[str, str], project: str) -> None:
    """Raise LabError if a drill must not write into these servers; nothing was written by then."""
    seen = {node: stance(server) for node, server in servers.items()}
    if found := hindrances(seen, writer, follows, is_cluster=not follows and len(servers) > 1):
        raise LabError(
            f"a drill would write into the schema {SCHEMA} of {writer or project}: " + "; ".join(found),
            f"servers that replicate the schema {SCHEMA}, all seen by the lab, and one that takes writes",
            f"./lab status --lab {project}",
        )
