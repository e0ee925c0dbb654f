"""A replica that understands the statements of its dialect about its threads, its delay and its rows; only state."""

import re

import pymysql
from replication_lab.model.core.errors import LabError
from replication_lab.world.mysql.dialects import dialects

from tests.fakes.parts import LabOfServers

DELAY = re.compile(r"CHANGE .* TO \w+_DELAY=(\d+)")


class FakeReplica:
    """A server with a source. Whoever sabotages it names words in `ignores`: a statement with them does nothing."""

    def __init__(self, name, family="mariadb"):
        self.name, self.dialect, self.ignores = name, dialects()[family], ()
        self.io = self.sql = True
        self.error, self.delay, self.row, self.sessions, self.follows = 0, 0, None, set(), True
        self.peers = []

    def another(self):
        return self

    def answering_within(self, _seconds):
        return FakeSession(self, 7 + len(self.sessions))

    def close(self):
        """Do nothing: there is no connection."""

    def rows(self, statement):
        if statement == self.dialect.replica_status:
            return [self._status()] if self.follows else []
        if statement.startswith("SHOW TABLES"):
            return [{"table": "applier_error"}]
        raise AssertionError(statement)

    def _status(self):
        column = self.dialect.columns
        threads = {column.io: "Yes" if self.io else "No", column.sql: "Yes" if self.sql else "No"}
        words = "Could not execute Update_rows" if self.error else ""
        waits = {"SQL_Delay": self.delay, "SQL_Remaining_Delay": self.delay or None}
        places = {column.host: "toxiproxy", column.port: 21002, column.lag: 0, column.io_error: ""}
        return {**threads, **places, column.sql_error: words, "Last_SQL_Errno": self.error, **waits}

    def value(self, statement):
        if "PROCESSLIST" in statement:
            return int(int(statement.rpartition(" ")[2]) in self.sessions)
        return self.row

    def execute(self, *statements):
        for statement in statements:
            if not any(words in statement for words in self.ignores):
                self._do(statement)

    def _do(self, statement):
        says = self.dialect
        if statement == says.locks["read-lock"].excludes and self.sessions:
            raise LabError("locked", "a lock") from pymysql.err.OperationalError(1205, "Lock wait timeout exceeded")
        if statement in (says.stop_applier, says.stop):
            self.sql = False
        if statement in (says.stop_io, says.stop):
            self.io = False
        if statement in (says.start_io, says.start):
            self.io = True
        if statement in (says.start_applier, says.start):
            self.sql, self.error = self.row is not None or not self.error, 0 if self.row is not None else self.error
        if found := DELAY.match(statement):
            self.delay = int(found[1])
        if statement.startswith("INSERT IGNORE"):
            self._has_row()
        if statement.startswith("DELETE FROM lab.applier_error"):
            self.row = None
        if statement.startswith("UPDATE lab.applier_error"):
            self._is_updated()

    def _has_row(self):
        for server in (self, *self.peers):
            server.row = server.row or 0

    def _is_updated(self):
        for server in self.peers:
            if server.row is None:
                server.sql, server.error = False, 1032


class FakeSession:
    """A connection of its own: a lock that it takes lasts until it is closed."""

    def __init__(self, server, number):
        self._server, self._number = server, number
        self.name, self.dialect, self.rows = server.name, server.dialect, server.rows

    def value(self, statement):
        return self._number if "CONNECTION_ID" in statement else self._server.value(statement)

    def execute(self, *statements):
        if not any(words in statement for words in self._server.ignores for statement in statements):
            self._server.sessions.add(self._number)

    def close(self):
        self._server.sessions.discard(self._number)


class LabOfReplicas(LabOfServers):
    """A fake lab whose servers are such replicas."""

    engine, is_attached = "mariadb", False

    def another(self):
        return self

    def refresh(self):
        """Do nothing: no address changes."""


def lab_of_replicas(topology="async"):
    """Return such a lab; the source's rows arrive at once."""
    lab = LabOfReplicas(topology, FakeReplica)
    source = lab.server(lab.topology.source.name)
    source.follows, source.peers = False, [one for one in lab.servers.values() if one is not source]
    return lab
