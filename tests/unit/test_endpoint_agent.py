"""Does the agent of images/haproxy say of a node what HAProxy has to know: takes it writes, is it current enough?"""

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pymysql
import pytest
from replication_lab.world import catalogue

FOLLOWS = {"Seconds_Behind_Master": 0}
IN_SYNC = {"wsrep_cluster_status": "Primary", "wsrep_local_state": "4", "wsrep_ready": "ON"}


class Connection:
    """A connection that answers by the beginning of a query; an exception is raised."""

    def __init__(self, answers):
        self.answers, self.closed, self.rows = answers, False, []

    def cursor(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def execute(self, query):
        found = next((answer for start, answer in self.answers.items() if query.startswith(start)), [])
        if isinstance(found, Exception):
            raise found
        self.rows = found

    def fetchone(self):
        return self.rows[0] if self.rows else None

    def fetchall(self):
        return self.rows

    def close(self):
        self.closed = True


@pytest.fixture
def why(monkeypatch):
    """Return why a node is unfit for writes or reads; an empty string if it is fit."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def of(purpose, replication="async", version="11.8.9-MariaDB", **answers):
        settings = {"LAB_REPLICATION": replication, "LAB_MAX_LAG": "5", "LAB_CHECK_MS": "500", "LAB_NODES": "node1"}
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        loader = SourceFileLoader("agent", str(catalogue.IMAGES / "haproxy" / "agent"))
        agent = module_from_spec(spec_from_loader("agent", loader))
        loader.exec_module(agent)
        node = agent.NODES["node1"]
        known = {
            "SELECT VERSION()": [{"v": version}],
            "SELECT @@GLOBAL.read_only": [{"r": answers.get("read_only", 0)}],
        }
        status = [row] if (row := answers.get("replica")) else []
        known |= {"SHOW SLAVE STATUS": [] if answers.get("newer") else status, "SHOW REPLICA STATUS": status}
        known |= {
            "SHOW STATUS": [{"Variable_name": k, "Value": v} for k, v in answers.get("wsrep", {}).items()],
            "SELECT MAX": [answers.get("member", {})],
        }
        node.connection = Connection(known | answers.get("raises", {}))
        try:
            node.check(purpose)
        except agent.Unfit as unfit:
            return str(unfit)
        return ""

    return of


def test_a_source_takes_both_and_a_replica_is_only_read(why):
    """By read_only, and by the lag that it reports."""
    assert [why(side) for side in ("writes", "reads")] == ["", ""]
    replica = {"read_only": 1, "replica": FOLLOWS}
    assert [why(side, **replica) for side in ("writes", "reads")] == ["read_only", ""]


@pytest.mark.parametrize(("behind", "said"), [(5, ""), (6, "6 s behind its source"), (None, "it does not replicate")])
def test_a_replica_is_read_as_long_as_it_is_current_enough(why, behind, said):
    """A stopped one does not know how far it is behind; newer servers have another word for it."""
    assert why("reads", read_only=1, replica={"Seconds_Behind_Master": behind}) == said
    newer = {"read_only": 1, "newer": True, "replica": {"Seconds_Behind_Source": behind}}
    assert why("reads", version="8.0.33", **newer) == said


def test_a_server_that_is_read_only_and_has_no_source_is_not_read(why):
    """A fenced old source has rows that nobody else may have."""
    assert why("reads", read_only=1) == "read_only"


@pytest.mark.parametrize(
    "change", [{"wsrep_local_state": "2"}, {"wsrep_cluster_status": "non-Primary"}, {"wsrep_ready": "OFF"}]
)
def test_a_node_of_a_cluster_that_is_not_in_sync_takes_neither(why, change):
    """A donor, one without a majority, and one that is not ready."""
    assert why("writes", "galera", wsrep=IN_SYNC) == why("reads", "galera", wsrep=IN_SYNC) == ""
    assert all(why(side, "galera", wsrep=IN_SYNC | change) for side in ("writes", "reads"))


@pytest.mark.parametrize("member", [{"state": "RECOVERING", "majority": 1}, {"state": "ONLINE", "majority": 0}])
def test_a_member_of_a_group_without_a_majority_takes_neither(why, member):
    """It stays ONLINE and writable, and its commits hang."""
    good = {"state": "ONLINE", "majority": 1}
    assert why("writes", "group", member=good) == "" and why("writes", "group", member=good, read_only=1) == "read_only"
    assert why("reads", "group", member=good, read_only=1) == ""
    assert all(why(side, "group", member=member) for side in ("writes", "reads"))


def test_a_node_that_does_not_answer_takes_neither(why):
    """Its connection is opened again at the next check."""
    lost = {"SELECT @@GLOBAL.read_only": pymysql.err.OperationalError(2013, "lost")}
    assert "no answer" in why("writes", raises=lost)
