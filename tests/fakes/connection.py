"""Connections to a server that answer as told, and what a replica's status looks like in each dialect."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from replication_lab.world.mysql import tls
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.server import Server

PASSWORDS = {"root": "of root", "lab": "of lab", "replicator": "of replicator"}


class FakeConnection:
    """A connection and its cursor: answers by the beginning of a statement; an exception is raised once."""

    def __init__(self, answers):
        self.told, self.asked, self.closed, self._rows = answers, [], False, []
        self.has_ended = False

    def thread_id(self):
        return 1

    @contextlib.contextmanager
    def cursor(self, _kind=None):
        yield self

    def execute(self, statement):
        self.asked.append(statement)
        beginning = next((each for each in self.told if statement.startswith(each)), None)
        answer = self.told[beginning] if beginning else []
        if isinstance(answer, Exception):
            del self.told[beginning]
            raise answer
        self._rows = answer
        return len(answer)

    def fetchall(self):
        return self._rows

    def has_news(self):
        return self.has_ended

    def answers(self, _seconds):
        return not self.has_ended

    def close(self):
        self.closed = True


def dialled_by(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Server, list[Any]]]:
    """Make a server whose every connection is one that answers as told; returns (server, connections dialled)."""

    def make(answers=None, dialect="mariadb"):
        connections = []

        def connect(**_options):
            connections.append(FakeConnection(answers or {}))
            return connections[-1]

        monkeypatch.setattr(tls, "TlsConnection", connect)
        return Server("replica", ("127.0.0.1", 1), dialects()[dialect], PASSWORDS), connections

    return make


@dataclass
class Words:
    """What the statements of a dialect look like."""

    status: str
    io: str
    sql: str
    host: str
    port: str


WORDS = {
    "mariadb": Words("SHOW SLAVE STATUS", "Slave_IO_Running", "Slave_SQL_Running", "Master_Host", "Master_Port"),
    "mysql": Words("SHOW REPLICA STATUS", "Replica_IO_Running", "Replica_SQL_Running", "Source_Host", "Source_Port"),
    "mysql-5.6": Words("SHOW SLAVE STATUS", "Slave_IO_Running", "Slave_SQL_Running", "Master_Host", "Master_Port"),
    "mysql-5.5": Words("SHOW SLAVE STATUS", "Slave_IO_Running", "Slave_SQL_Running", "Master_Host", "Master_Port"),
}


def status_row(dialect: str, **changes) -> dict:
    column = dialects()[dialect].columns
    row = {
        column.io: "Yes",
        column.sql: "Yes",
        column.host: "toxiproxy",
        column.port: 21002,
        column.io_error: "",
        column.sql_error: "",
    }
    return {**row, column.lag: 0, **changes}
