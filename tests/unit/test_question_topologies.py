"""Is each topology arranged as a question asks, and refused by name what it does not have?"""

import pytest
from replication_lab import experiments
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.question.question import Question
from replication_lab.world import catalogue
from replication_lab.world.mysql.replica import Replica

FAR = {"rtt": "40ms"}


def question(*topologies, vary=None, **settings):
    return Question(topologies=list(topologies), vary=vary or {"clients": ["1", "4"]}, settings=settings)


def ask(*topologies, vary=None, **settings):
    return experiments.asked(question(*topologies, vary=vary, **settings))


def proved(record):
    return {proof.what for measurement in record.measurements for proof in measurement.proofs}


@pytest.mark.parametrize("name", [name for name in catalogue.topologies() if name != "raid"])
def test_every_other_topology_can_be_asked(name):
    """Only replicas on slow disks cannot."""
    assert [case.name for case in ask(name).cases] == ["clients=1", "clients=4"]


@pytest.mark.parametrize(
    ("topologies", "settings", "said", "instead"),
    [
        (["raid"], {}, "the replicas of raid are on slow disks and do not keep up", "./lab run raid_replica"),
        (["single"], FAR, "single has no link", "--vary replication=none,async"),
        (
            ["single"],
            {"replication": "async"},
            "single has no setting replication: it has a single server",
            "ask semisync",
        ),
        (
            ["chain"],
            {"replication": "none"},
            "chain has no setting replication: one of its replicas replicates",
            "ask semisync",
        ),
        (["chain"], {"wait_point": "AFTER_SYNC"}, "chain has no setting wait_point", "ask semisync"),
        (
            ["drbd"],
            {"replication": "async"},
            "drbd has no setting replication: DRBD replicates its disk",
            "ask semisync",
        ),
        (["async"], {"protocol": "B"}, "async has no replicated disk", "./lab ask drbd --vary protocol=A,B,C"),
        (["drbd", "async"], {"protocol": "B"}, "async has no replicated disk", "./lab ask drbd"),
        (["drbd-ha"], {"protocol": "A"}, "DRBD has no protocol A in drbd-ha", "./lab ask drbd --vary protocol=A,B,C"),
        (["drbd"], {"protocol": "D"}, "unknown protocol 'D'", ""),
        (
            ["drbd"],
            {"node2.sync_binlog": "1"},
            "node2.sync_binlog: no server runs on node2 of drbd",
            "./lab ask drbd --vary node1.sync_binlog=…",
        ),
        (["drbd"], {"node3.sync_binlog": "1"}, "drbd has no node 'node3'", "./lab list topologies"),
    ],
)
def test_what_a_topology_does_not_have_is_refused(topologies, settings, said, instead, refused):
    """The message says why, and the command that asks something possible."""
    found = refused(lambda: ask(*topologies, **settings))

    assert said in found.found and instead in found.next_step


def test_a_file_for_a_machine_is_refused(refused):
    """Its server is not restarted with one."""
    asked = Question(
        topologies=["drbd"],
        vary={"clients": ["1", "4"]},
        settings={"cnf": "my.cnf"},
        cnf=[GivenFile("my.cnf", "[mysqld]\nsync_binlog=0\n")],
    )

    assert "run in virtual machines" in refused(lambda: experiments.asked(asked)).found


def test_a_server_alone_is_measured(ran):
    """It has no link: nothing is proved of any."""
    summary, record, _ = ran(ask("single"), preset="ask")

    assert summary.verdict == "AS_EXPECTED"
    assert "the links have no toxics" not in proved(record)


def test_both_links_of_a_chain_are_proved(ran):
    """The relay replicates, the leaf too, and both links had the round trip."""
    _, record, _ = ran(ask("chain", **FAR), preset="ask")
    measurement = record.measurements[0]

    assert {f"{node} replicates by the path that the case sets" for node in ("relay", "leaf")} <= proved(record)
    assert {fault.link: fault.seen for fault in measurement.faults} == {"source-relay": True, "relay-leaf": True}
    assert not any(measurement.reasons_to_doubt for measurement in record.measurements)


def test_a_relay_that_stopped_makes_it_unknown(ran):
    """The sabotage: from then on the leaf gets nothing, and the source commits as before."""

    def stop(lab, _load):
        Replica(lab.node("relay").server()).stop()

    summary, _, _ = ran(ask("chain", **FAR), preset="ask", meanwhile=stop)

    assert summary.verdict == "UNKNOWN"
    assert all("relay replicates" in claim.reason for claim in summary.claims)


# --- a replicated disk ------------------------------------------------------------------------------------------------


def test_a_protocol_is_set_and_proved(ran):
    """Under A a commit does not wait for the peer; under B and C it does, and none is faster."""
    summary, record, _ = ran(ask("drbd", vary={"protocol": ["A", "B", "C"]}, **FAR), preset="ask")
    waits = {
        measurement.case: [proof.found for proof in measurement.proofs if "sooner than a round trip" in proof.what]
        for measurement in record.measurements
    }

    assert summary.verdict == "AS_EXPECTED"
    assert not waits["protocol=A"] and waits["protocol=B"] and waits["protocol=C"]
    assert [effect.throughput_ratio.high < 0.2 for effect in summary.effects] == [True, True]
    assert "node1 was primary before and after the load" in proved(record)


def test_variables_are_set_where_the_server_runs(ran):
    """The peer runs none."""
    _, record, _ = ran(ask("drbd", innodb_flush_log_at_trx_commit="1"), preset="ask")

    assert [what for what in proved(record) if "innodb_flush" in what] == ["node1 has innodb_flush_log_at_trx_commit=1"]


def test_a_commit_that_is_not_flushed_waits_for_no_peer(ran):
    """With this setting of the user a commit is acknowledged before its log is written, so its wait is not proved."""
    _, record, _ = ran(ask("drbd", innodb_flush_log_at_trx_commit="2", **FAR), preset="ask")

    assert "no commit was answered sooner than a round trip" not in proved(record)


def part(lab, _load):
    """Disconnect the machines in the middle of the load."""
    lab.resource.connected = False


def part_and_meet(lab, _load):
    """Disconnect the machines, and make them equal again before the load's end."""
    lab.resource.told("node2", "disconnect")
    lab.resource.told("node2", "connect")


def move(lab, _load):
    """Make the other machine primary."""
    lab.resource.nodes.reverse()


def grow_deaf(lab, _load):
    """Accept a protocol without acting on it."""
    lab.resource.deaf = True


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (part, "the peer is connected"),
        (part_and_meet, "the connection changed meanwhile"),
        (move, "node1 was primary before and after the load"),
        (grow_deaf, "both machines use the protocol of the case"),
    ],
)
def test_a_pair_that_changed_during_the_load_makes_it_unknown(ran, trouble, said):
    """Whatever was measured then was not what was asked."""
    summary, record, _ = ran(ask("drbd", vary={"protocol": ["B", "C"]}, **FAR), preset="ask", meanwhile=trouble)

    assert summary.verdict == "UNKNOWN"
    assert said in " ".join(record.doubts("mariadb", record.measurements))
