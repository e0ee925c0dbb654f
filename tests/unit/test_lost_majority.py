"""Is a node that answers and serves no client told from one that serves, and are two clusters told from one?"""

from typing import Any

import pytest
from replication_lab import replication
from replication_lab.faults import _nodes
from replication_lab.faults.kill import Kill
from replication_lab.lab import nodes as acting
from replication_lab.lab import status
from replication_lab.model.core.errors import LabError
from replication_lab.replication import galera
from replication_lab.world import clock

from tests.fakes.parts import LabOfServers

NAMES = ("node1", "node2", "node3")
STATUS = {
    "ready": "ON",
    "local_state_comment": "Synced",
    "cluster_status": "Primary",
    "cluster_size": "3",
    "cluster_conf_id": "7",
    "cluster_state_uuid": "u",
    "last_committed": "12",
    "local_cert_failures": "0",
    "local_bf_aborts": "0",
    "flow_control_paused_ns": "0",
    "flow_control_sent": "0",
    "local_recv_queue": "0",
    "local_send_queue": "0",
    "evs_repl_latency": "0/0/0/0/0",
    "incoming_addresses": ",".join(f"{name}:3306" for name in NAMES),
}
ALONE = {"incoming_addresses": "node1:3306", "cluster_size": "1"}
BLOCKED = {"ready": "OFF", "local_state_comment": "Initialized", "cluster_status": "non-Primary"}


class Server:
    """A member with the state and the tables that a test gives it; its tables are numbers by name."""

    def __init__(self, name, tables=(("lab.t", 1),), megabytes=1, **changes):
        self.name, self.tables_, self.megabytes = name, dict(tables), megabytes
        self.status = STATUS | changes
        self.commits_while_compared = 0

    def rows(self, _sql):
        return [{"Variable_name": f"wsrep_{name}", "Value": value} for name, value in self.status.items()]

    def value(self, _sql):
        return self.megabytes << 20

    def tables(self, _engine):
        return sorted(self.tables_)

    def checksum(self, table):
        self.status["last_committed"] = str(int(self.status["last_committed"]) + self.commits_while_compared)
        return self.tables_.get(table)

    def settings(self, *names):
        return dict.fromkeys(names, "OFF")

    def version(self):
        return "fake"

    def execute(self, *_statements):
        pass


class Silent(Server):
    def rows(self, _sql):
        raise LabError(f"{self.name} does not answer")


class Lab(LabOfServers):
    def __init__(self, **servers):
        super().__init__("galera", Server, **servers)
        self.status = dict.fromkeys(NAMES, "running")

    def state_of(self, name):
        return self.status[name], 1

    def logs(self, _name):
        return "failed to reach primary view"


def kind(**servers):
    return replication.of(Lab(**servers))


@pytest.fixture
def passing(monkeypatch):
    """Let time pass at each look of a wait, without waiting."""
    now = [0.0]

    def until(condition, what, seconds=180, **_options):
        ends = now[0] + seconds
        while now[0] < ends:
            if found := condition():
                return found
            now[0] += 1
        raise LabError(f"timed out waiting for {what}")

    monkeypatch.setattr(clock, "wait_until", until)
    monkeypatch.setattr(clock, "timer", lambda: now[0])
    return now


def test_a_drill_does_not_wait_for_two_clusters_to_become_one(refused):
    """They never do by themselves."""
    alone = {name: Server(name, incoming_addresses=name) for name in NAMES}

    assert "two clusters, written separately" in refused(kind(**alone).refuse_ended, "node1").found
    assert kind().ended("node1") == ""


# --- without a majority -----------------------------------------------------------------------------------------------


def test_a_node_without_a_majority_is_not_said_to_serve(passing):
    """It answers: the cause and the command that goes on are said, within seconds."""
    others = {name: Silent(name) for name in ("node2", "node3")}
    (proof,) = Kill(Lab(node1=Server("node1", **BLOCKED), **others), ["node1"]).verify_recovered()

    assert not proof.ok and proof.found.startswith("Initialized, non-Primary; no majority: node1 non-Primary; ")
    assert './lab sql node1 --lab lab-galera -e "SET GLOBAL wsrep_provider_pc_bootstrap = ON"' in proof.found
    assert passing[0] <= _nodes.LOST_SECONDS + 2


def test_a_node_that_ended_for_want_of_a_majority_is_a_failed_proof(passing):
    """Not only a log to be read."""
    lab = Lab(node1=Server("node1", **BLOCKED), node2=Silent("node2"), node3=Silent("node3"))
    lab.status["node2"] = "exited"
    (proof,) = Kill(lab, ["node2"]).verify_recovered()

    assert not proof.ok and "node2 was restarted and exited with status 1; no majority: node1" in proof.found
    assert proof.found.endswith(", then ./lab start node2 --lab lab-galera")


def test_a_node_that_ended_in_a_cluster_that_serves_is_an_error_with_its_log(passing, refused):
    """The reason is its own."""
    lab = Lab()
    lab.status["node2"] = "exited"

    assert "failed to reach" in refused(Kill(lab, ["node2"]).verify_recovered).found


def test_a_node_that_joins_later_serves(passing):
    """A cluster that has a majority takes it in within seconds."""
    joining = Server("node2", **BLOCKED)
    lab = Lab(node2=joining)
    rows = joining.rows

    def joined(sql):
        if passing[0] > 20:
            joining.status |= STATUS
        return rows(sql)

    joining.rows = joined
    (proof,) = Kill(lab, ["node2"]).verify_recovered()

    assert proof.ok and proof.found == "serving"


def test_a_node_in_the_view_that_it_last_had_does_not_serve_yet(passing):
    """It was frozen, and its cluster has excluded it: only a read that waits for the cluster shows that."""
    frozen = Server("node2")

    def waits(*_statements):
        if passing[0] < 15:
            raise LabError("Lock wait timeout exceeded")

    frozen.execute = waits
    (proof,) = Kill(Lab(node2=frozen), ["node2"]).verify_recovered()
    assert proof.ok and passing[0] >= 15

    passing[0] = -1000
    (proof,) = Kill(Lab(node2=frozen), ["node2"]).verify_recovered()
    assert not proof.ok and "does not reach its cluster: Lock wait timeout exceeded" in proof.found


def test_members_that_find_each_other_again_have_not_lost_their_majority(passing):
    """All are non-Primary for a moment after they come back."""
    servers = {name: Server(name, **BLOCKED) for name in NAMES}
    rows = servers["node1"].rows

    def met(sql):
        if passing[0] > 3:
            for server in servers.values():
                server.status |= STATUS
        return rows(sql)

    servers["node1"].rows = met

    assert Kill(Lab(**servers), ["node1"]).verify_recovered()[0].ok


def test_a_server_without_variables_of_its_library_gets_the_older_statement():
    """Those came with MariaDB 11."""
    old = Server("node1", **BLOCKED)
    old.settings = lambda *_names: {}
    lost = kind(node1=old, node2=Silent("node2"), node3=Silent("node3")).lost_majority()

    assert lost is not None and "wsrep_provider_options = 'pc.bootstrap=YES'" in lost.next_step


def test_the_node_with_the_newest_rows_is_the_one_to_go_on():
    """Of those that answer."""
    found = {name: Server(name, **BLOCKED, last_committed=str(at)) for name, at in zip(NAMES, (5, 9, 7), strict=True)}
    lost = kind(**found).lost_majority()

    assert lost is not None and "./lab sql node2" in lost.next_step


# --- written separately -----------------------------------------------------------------------------------------------


def apart(name):
    return Server(name, **{**ALONE, "incoming_addresses": f"{name}:3306"})


def test_nodes_that_are_each_primary_alone_are_two_clusters():
    """By their views: same history, same number of the view."""
    found = kind(node1=apart("node1"), node2=apart("node2"), node3=Silent("node3")).separate_histories()

    assert found == ["two clusters, written separately: node1 does not see node2"]


def test_two_histories_are_two_clusters():
    """By the cluster's own UUID."""
    assert kind(node2=Server("node2", cluster_state_uuid="other")).separate_histories()


def test_a_minority_is_no_second_cluster():
    """It accepts no write."""
    assert not kind(node3=Server("node3", **BLOCKED, incoming_addresses="node3:3306")).separate_histories()


def test_a_node_that_has_just_joined_is_no_second_cluster():
    """Its peer was asked before it had joined."""
    assert not kind(node1=apart("node1"), node2=Server("node2"), node3=Silent("node3")).separate_histories()


def test_equal_views_with_different_rows_were_written_separately():
    """Joined again at the same number, all are Synced, and nothing but the rows shows it."""
    (said,) = kind(node2=Server("node2", [("lab.t", 1), ("shop.`order`", 2)])).separate_histories()

    assert said.startswith("two clusters, written separately, or by sessions with wsrep_on=OFF: ")
    assert said.endswith("node2 differs from node1 in shop.order")


def test_equal_rows_are_one_cluster():
    """Of all three."""
    assert not kind().separate_histories()


def test_rows_that_change_meanwhile_prove_nothing():
    """The copies were read at different moments."""
    other = Server("node2", [("lab.t", 2)])
    other.commits_while_compared = 1

    assert not kind(node2=other).separate_histories()


def test_a_status_does_not_read_large_tables():
    """A proof does."""
    nodes = kind(node2=Server("node2", [("lab.t", 2)], megabytes=100))

    assert not nodes.separate_histories(small=True)
    assert nodes.separate_histories()


def test_nodes_with_different_rows_are_not_together(monkeypatch, refused):
    """A restart of the nodes ends with that, though all are Synced."""
    nodes = kind(node2=Server("node2", [("lab.t", 2)]))

    assert "two clusters" in refused(nodes.wait_until_together).found
    assert "two clusters" in refused(nodes.prove, {}).found
    assert nodes.differences() == ["node2 differs from node1 in lab.t"]


def test_the_start_of_a_node_with_different_rows_is_a_failed_proof(passing, monkeypatch):
    """It serves, and that is not all."""
    lab: Any = Lab(node2=Server("node2", [("lab.t", 2)]))
    lab.status["node2"] = "exited"
    monkeypatch.setattr(Lab, "start_again", lambda self, name: self.status.update({name: "running"}), raising=False)
    monkeypatch.setattr(acting, "refuse_in_use", lambda _lab: None)
    serving, separate = acting.act(lab, "start", ["node2"])

    assert serving.ok and not separate.ok and "two clusters, written separately" in separate.found


def test_rows_that_cannot_be_compared_are_told_and_fail_nothing():
    """Another node ended meanwhile; the one that was started serves."""
    ended = Server("node2")
    ended.checksum = Silent("node2").rows
    (proof,) = acting._separate(Lab(node2=ended))

    assert proof.ok and proof.what.startswith("not compared") and proof.found == "node2 does not answer"


def test_the_view_of_a_lab_warns_and_never_fails():
    """As `lab status` prints it."""
    assert status._unless_silent(kind(node2=Server("node2", [("lab.t", 2)])).warnings, [])

    def dies():
        raise LabError("node2 does not answer")

    assert status._unless_silent(dies, []) == []
    assert galera.APART == "two clusters, written separately"
