"""Did others send a server statements that change it, keep it busy, or make the clients of a load wait?"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.mysql_errors import code_of
from replication_lab.witnesses.sampled import START_SECONDS, Changes, Following, Reading, Sampled
from replication_lab.world import clock, requests_made
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server
from replication_lab.world.requests_made import CONTROLS_REPLICATION, DEFINES, OwnRequest, has_set

UNDISTURBED = (
    "no other program changed or locked a table, stopped replication, kept a server busy, or changed its variables"
)
# Counters need not be read often: an idle server takes milliseconds for an answer.
READ_SECONDS = 0.7
# Statements by which a table is changed, emptied or dropped, and changed back. CREATE TABLE is not counted: it changes
# no other table. A replica counts the statements that it applies, too. A trigger changes what other statements do, a
# plugin what a commit waits for, ALTER INSTANCE switches MySQL's redo log off, and without its account a replica does
# not connect again.
TABLES = ["alter_table", "create_index", "drop_index", "drop_table", "drop_db", "rename_table", "truncate"]
TABLES += ["create_trigger", "drop_trigger", "alter_instance", "install_plugin", "uninstall_plugin"]
TABLES += ["alter_user", "drop_user", "rename_user", "revoke"]
# Statements that make others wait, or stop replication or change its source: each server has counters of its own.
LOCKS = ["flush", "lock_tables", "lock_instance", "backup", "backup_lock"]
CONTROLS = ["stop_slave", "stop_all_slaves", "slave_stop", "replica_stop", "change_master", "change_replication_source"]
CONTROLS += ["reset"]
UPTIME, FLUSHED = "Uptime", "Uptime_since_flush_status"
# The sessions of the administrator, as of `lab sql`; applications have an account of their own.
SESSIONS = """\
SELECT ID, HOST, COMMAND, INFO FROM information_schema.PROCESSLIST WHERE USER = 'root' AND ID <> CONNECTION_ID()"""
TRANSACTIONS = "SELECT trx_mysql_thread_id AS ID FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id IN ({})"
IN_CONTAINER = " AND HOST = 'localhost'"
# While a trigger or a routine runs, a server lists its client's session as that of the account that defined it.
DEFINERS = """\
SELECT DEFINER FROM information_schema.TRIGGERS UNION SELECT DEFINER FROM information_schema.ROUTINES"""
CLIENT = re.compile(r"(?P<account>[^\d].*):\d+")
RUNS = ("Query", "Execute")
# What the health checks in the containers ask, which hangs where the server does, and how a member joins its group.
OF_THE_CONTAINER = re.compile(r"SHOW\b|SELECT (VERSION\(\)|member_state\b)|START GROUP_REPLICATION\b")
# So many readings in a row find a session at work that runs one long statement, or short ones one after the other. The
# live page of another command sends a short one each second.
RUNNING_READINGS, OPEN_READINGS = 3, 2
# MySQL has the first one since 5.7; MariaDB and earlier ones have the second.
GLOBALS, NO_SUCH_TABLE = ("performance_schema.global_variables", "information_schema.GLOBAL_VARIABLES"), 1146
# Without those that a server changes by itself: positions, and what follows from the members of a cluster.
DIGEST = "SELECT BIT_XOR(CRC32(CONCAT(VARIABLE_NAME, '=', COALESCE(VARIABLE_VALUE, '')))), CONNECTION_ID() FROM {} "
VALUES = "SELECT LOWER(VARIABLE_NAME) AS name, VARIABLE_VALUE AS value FROM {} "
OF_OTHERS = (
    "WHERE VARIABLE_NAME NOT RLIKE '^(gtid_|group_replication_|auto_increment_|wsrep_[^p]|wsrep_provider_pc_bootstrap)'"
)
# Setting one variable of a group changes the other one too, to another value. wsrep_provider_options contain the values
# of all wsrep_provider_… variables that a server has.
PROVIDER = "wsrep_provider"
LINKED = (
    {"binlog_expire_logs_seconds", "expire_logs_days"},
    {"character_set_server", "collation_server"},
    {"innodb_io_capacity", "innodb_io_capacity_max"},
    {"innodb_max_dirty_pages_pct", "innodb_max_dirty_pages_pct_lwm"},
)
LONGEST = 60


def statements_of_others(lab: Lab) -> Sampled[Server]:
    """Return the witness of all servers of a lab; the tables of an attached project are its applications' to change."""
    # The second machine of a replicated disk has no server to ask.
    many = 0 if isinstance(lab, AttachedLab) else 1 if lab.topology.replication == "drbd" else None
    # A failover manager stops and leads replication by itself.
    counted = {DEFINES: TABLES} if lab.manager else {DEFINES: [*TABLES, *LOCKS], CONTROLS_REPLICATION: CONTROLS}
    in_group = lab.topology.replication == "group"
    # And so does a member of a group, which refuses writes when it leaves.
    told = Following if lab.manager or in_group else str
    # One that joins again also counts statements of its relay log that it has executed before, and skips.
    repeats = START_SECONDS if in_group else 0
    readings = {
        node.name: partial(_all_of, (Statements(counted, repeats), sessions(lab), GlobalVariables(told)))
        for node in lab.topology.nodes[:many]
    }
    return Sampled(UNDISTURBED, lab, readings, every=READ_SECONDS)


def _all_of(readings: Sequence[Reading[Server]], server: Server) -> list[str]:
    return [each for reading in readings for each in reading(server)]


class Statements:
    """The statements that a server counts; `counted` has their names by the kind of request that explains them.

    One that was started again may count for `repeats` seconds statements that it had counted before.
    """

    def __init__(self, counted: Mapping[str, list[str]], repeats: float) -> None:
        self._names = [name for names in counted.values() for name in names]
        self._changes = [
            Changes(partial(_words, names), partial(_is_of, {kind, DEFINES})) for kind, names in counted.items()
        ]
        self._before, self._started, self._repeats, self._until = dict[str, int](), -math.inf, repeats, -math.inf

    def __call__(self, server: Server) -> list[str]:
        """Return each kind of statement that others sent since the last reading; a restart sets all counts to zero."""
        asked = clock.timer()
        now = server.counters(*(f"Com_{name}" for name in self._names), UPTIME, FLUSHED)
        # The moment in the server's life: MariaDB's FLUSH GLOBAL STATUS takes off what sessions that ended had counted.
        now[FLUSHED] = now[UPTIME] - now[FLUSHED]
        # A server tells whole seconds, and may answer late: it started at some moment between these two.
        earliest, latest, then = asked - now[UPTIME] - 1, clock.timer() - now[UPTIME], self._started
        before, self._before, self._started = self._before, now, latest
        if earliest > then:
            requests_made.forget_sessions(server.home, earliest)
            self._until = latest + self._repeats if before else -math.inf
            return []
        if asked < self._until:
            return []
        if now[FLUSHED] != before[FLUSHED]:
            return [f"{server.name} flushed its counters"]
        grown = {name: number - before[name] for name, number in now.items()}
        return [f"{server.name} counted {each}" for changes in self._changes for each in changes(grown)]


def _goes_with(name: str, own: str, changed: Mapping[str, tuple[str, str]]) -> bool:
    """Return whether a variable changed because another one was set: by its other name, or as a server derives it."""
    is_linked = any({name, own} <= linked for linked in LINKED) or (
        name.startswith(PROVIDER) and own.startswith(PROVIDER)
    )
    return is_linked or (changed[name] == changed[own] and bool({*name.split("_")} & {*own.split("_")}))


def _words(names: list[str], grown: Mapping[str, int]) -> list[str]:
    counted = {name.replace("_", " "): grown.get(f"Com_{name}", 0) for name in names}
    return [f"{many} {name}" for name, many in counted.items() if many]


def _is_of(kinds: Collection[str], one: OwnRequest) -> bool:
    return one.kind in kinds


def sessions(lab: Lab) -> Reading[Server]:
    """Return what reads the sessions of others; a failover manager may have some that wait for replication."""
    # Clients beside the nodes have sessions whose numbers are not known here.
    only = IN_CONTAINER if lab.clients_are_beside else ""
    return (lambda _: []) if lab.manager else Changes(Sessions(only).busy, partial(_is_of, {DEFINES}))


@dataclass
class Sessions:
    """What sessions of others did at the readings before; `only` is a further condition in SQL."""

    only: str = ""
    # For how many readings in a row, by the session's number and how many are told.
    _in_a_row: Mapping[tuple[int, int], int] = field(default_factory=dict)

    def busy(self, server: Server) -> list[str]:
        """Return which sessions of others ran statements for about two seconds, or kept a transaction open for one."""
        own = requests_made.sessions_made(server.home)
        others = {row["ID"]: row for row in server.rows(SESSIONS + self.only) if row["ID"] not in own}
        others = {number: row for number, row in others.items() if not _is_of_a_definer(server, row["HOST"])}
        open_ = server.rows(TRANSACTIONS.format(", ".join(map(str, others)))) if others else []
        now = {
            (row["ID"], OPEN_READINGS): f"{_session(others[row['ID']])} kept a transaction open on {server.name}"
            for row in open_
        }
        now |= {
            (number, RUNNING_READINGS): f"{_session(row)} ran `{str(row['INFO'])[:100]}` on {server.name}"
            for number, row in others.items()
            if row["COMMAND"] in RUNS and not OF_THE_CONTAINER.match(str(row["INFO"]))
        }
        before, self._in_a_row = self._in_a_row, {one: self._in_a_row.get(one, 0) + 1 for one in now}
        return [said for one, said in now.items() if before.get(one, 0) + 1 >= one[1]]


def _is_of_a_definer(server: Server, host: str) -> bool:
    """Return whether a session may be an application's that runs what root at this host defined.

    The client's port tells it from a session by the socket, whose host has none.
    """
    client = CLIENT.fullmatch(host)
    return client is not None and f"root@{client['account']}" in {row["DEFINER"] for row in server.rows(DEFINERS)}


def _session(row: Mapping[str, Any]) -> str:
    return f"a session of others, number {row['ID']} from {row['HOST'].partition(':')[0]},"


@dataclass
class GlobalVariables:
    """A server's variables at the reading before.

    What was set is lost when the server ends, and so is the session that reads it.
    """

    told: type[str] = str
    _tables: list[str] = field(default_factory=lambda: list(GLOBALS))
    _session: tuple[Server, int] | None = None
    _digest: object = None
    _before: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, server: Server) -> list[str]:
        """Return each variable that has another value than before and was not set by this process.

        What a server changes together with such a variable is not told: a second name of it, as slave_parallel_workers
        is of replica_parallel_workers, or a value that it derives.
        """
        (row,) = self._rows(server, DIGEST)
        digest, number = row.values()
        is_same = self._session == (server, number)
        if is_same and digest == self._digest:
            return []
        now = {str(row["name"]): str(row["value"]) for row in self._rows(server, VALUES)}
        before = self._before if is_same else now
        self._session, self._digest, self._before = (server, number), digest, now
        changed = {name: (before[name], now[name]) for name in now if before.get(name, now[name]) != now[name]}
        own = [name for name in changed if has_set(server.address, name)]
        return [
            self.told(f"{name} was {is_[:LONGEST]} on {server.name}, after {was[:LONGEST]}")
            for name, (was, is_) in changed.items()
            if name not in own and not any(_goes_with(name, each, changed) for each in own)
        ]

    def _rows(self, server: Server, statement: str) -> list[dict[str, Any]]:
        try:
            return server.rows((statement + OF_OTHERS).format(self._tables[0]))
        except LabError as error:
            if len(self._tables) == 1 or code_of(error.__cause__) != NO_SUCH_TABLE:
                raise
        del self._tables[0]
        return self._rows(server, statement)
