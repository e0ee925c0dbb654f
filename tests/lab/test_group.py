"""MySQL Group Replication on real servers: all of it crosses Toxiproxy, and the group comes back from faults."""

import re
import secrets
from contextlib import suppress

import pytest
from replication_lab.faults.toxic_calibration import clear
from replication_lab.lab import nodes, sql_files, start_options, up
from replication_lab.model.core.errors import LabError, OutcomeUnknown
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.history import Outcome
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.option_file import StartOptions
from replication_lab.replication import group as kind
from replication_lab.witnesses import sampled
from replication_lab.witnesses.servers import STAYED
from replication_lab.world import catalogue, clock, requests_made, signals
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import images, project
from replication_lab.world.mysql.client import ApplicationClient

from tests.lab.witnessed import proof_while

ENGINE = "mysql-8.0"
NODES = ("node1", "node2", "node3")
COUNT = "SELECT COUNT(*) FROM lab.crossed"


@pytest.fixture(scope="module")
def started(docker):
    """Yield three members of one group and the proofs of their start; one test after another breaks and repairs it."""
    topology = catalogue.topology("group")
    images.ensure(up.image_names(ENGINE, topology=topology))
    lab = project.start(LabRequest(topology, ENGINE, f"test-{secrets.token_hex(4)}"))
    try:
        proofs = up.prove(lab, catalogue.toxics_on(topology.toxics))
        kind.Group(lab).writer().execute("CREATE TABLE lab.crossed (id INT AUTO_INCREMENT PRIMARY KEY)")
        yield lab, proofs
    finally:
        with signals.signals_held():
            lab.down()


@pytest.fixture(scope="module")
def group(started):
    return started[0]


@pytest.fixture(autouse=True)
def whole(group):
    """Start every node, switch on every link, and wait until all are ONLINE with one primary, after each test."""
    yield
    for link in group.topology.links:
        group.link(link.name).enable()
    for node in NODES:
        if group.node(node).state()[0] != "running":
            group.node(node).start_again()
    wait_until_whole(group)


def wait_until_whole(lab):
    nodes = kind.Group(lab)
    wait_until(lambda: all(nodes.stands(name) for name in NODES), f"{', '.join(NODES)} ONLINE in one group", 120)


def passed_by(lab):
    """Return by node how many packets had a peer's own address: the rules that count them refuse them too."""
    found = {}
    for node in NODES:
        listed = [
            lab.service(f"sidecar{node[-1]}").run("iptables", "-t", "filter", "-vnxL", chain).splitlines()[2:]
            for chain in ("LAB-REFUSE-OUT", "LAB-REFUSE-IN")
        ]
        assert all(listed), f"{node} has no rules"
        found[node] = sum(int(line.split()[0]) for lines in listed for line in lines)
    return found


@pytest.mark.long
def test_a_primary_that_others_elect_for_a_moment_is_told(group):
    """The group's view does not change by it, and at the end the first node is the primary again."""
    uuids = {node: group.node(node).server().value("SELECT @@server_uuid") for node in NODES}

    def elect():
        for node in ("node2", "node1"):
            asked = f"SELECT group_replication_set_as_primary('{uuids[node]}')"
            once_elected(kind.Group(group).writer(), asked)
            clock.pause(1)

    proof = proof_while(group, STAYED, elect)

    # The proof names a few of the changes that each node tells; each logs the first one before it is read.
    assert not proof.ok and "logged: Starting group operation local execution: Primary" in str(proof.found)


def once_elected(server, asked):
    """Ask for another primary once the election before has ended: until then the group refuses (error 3910)."""
    wait_until(lambda: accepts(server, asked), "the group to accept another election")


def accepts(server, asked):
    try:
        server.execute(asked)
    except LabError as error:
        if "3910" not in error.found:
            raise
        return False
    return True


def test_one_that_they_elect_between_two_readings_is_told_by_the_log_also_after_a_fault(group, monkeypatch):
    """By then a group may elect another one, but by itself it starts no such operation."""
    # A second before it and after it: no other reading comes between, and none is missed.
    monkeypatch.setattr(sampled, "EVERY_SECONDS", 2.5)
    uuids = {node: group.node(node).server().value("SELECT @@server_uuid") for node in NODES}

    def elect():
        with requests_made.noted("kill", "a node of this lab"):
            pass
        for node in ("node2", "node1"):
            asked = f"SELECT group_replication_set_as_primary('{uuids[node]}')"
            once_elected(kind.Group(group).writer(), asked)

    proof = proof_while(group, STAYED, elect)

    assert not proof.ok
    assert "logged: Starting group operation local execution: Primary election change" in str(proof.found)


@pytest.mark.long
def test_a_primary_that_others_elect_after_a_switchover_is_unknown(drilled):
    """There and back at once: neither a reading of the roles nor the number of the group's view shows it."""

    def elect(lab):
        clock.pause(2)
        for node in ("node3", "node2"):
            uuid = lab.node(node).server().value("SELECT @@server_uuid")
            once_elected(lab.node("node2").server(), f"SELECT group_replication_set_as_primary('{uuid}')")

    result = drilled("group", "switchover", meanwhile=elect)
    doubts = "; ".join(result.doubts)

    assert {one.verdict for one in result.judgements} == {Verdict.UNKNOWN}
    assert f"{STAYED}: at " in doubts and "logged: Starting group operation local execution" in doubts


def test_a_primary_that_the_lab_elects_is_no_doubt(group):
    """It asks for each change itself."""

    def elect():
        for node in ("node2", "node1"):
            kind.Group(group).take_over(node)

    assert proof_while(group, STAYED, elect).ok


def write(lab):
    kind.Group(lab).writer().execute("INSERT INTO lab.crossed VALUES ()")


def counts(lab):
    kind.Group(lab).wait_until_caught_up()
    return {lab.node(node).server().value(COUNT) for node in NODES}


def test_the_group_was_proved(started):
    """Every link's toxic, one view with one primary, a commit that waited, a row that arrived."""
    said = {proof.what: proof for proof in started[1]}

    assert len(said) == 9 and all(proof.ok for proof in said.values())
    assert "views reported: 1" in said["one group of 3 with one primary"].found


def test_no_packet_goes_from_node_to_node(group):
    """Whichever node is the primary."""
    for node in NODES:
        kind.Group(group).take_over(node)
        write(group)

    assert {3} == counts(group)
    assert dict.fromkeys(NODES, 0) == passed_by(group)


def test_a_secondary_refuses_to_write(group):
    """With the error that a client of a drill gets."""
    kind.Group(group).take_over("node1")

    with pytest.raises(LabError, match="1290"):
        group.node("node2").server().execute("INSERT INTO lab.crossed VALUES ()")


def test_a_commit_that_waits_for_nobody_is_noticed(group):
    """Sabotage: without the toxics the group commits in a fraction of the round trip that was asked for."""
    for link in group.topology.links:
        clear(group.link(link.name))
    # A second, because a commit may take as long as the topology's round trip on a starved machine.
    found = kind.Group(group).prove(dict.fromkeys(group.topology.toxics, catalogue.toxic("1000ms")))

    assert [True, False, True] == [proof.ok for proof in found]


def test_without_links_nobody_commits_and_with_them_the_group_comes_back(group):
    """It fails closed: each node alone has no majority."""
    for link in group.topology.links:
        group.link(link.name).cut()
    members = [group.node(node).server() for node in NODES]
    wait_until(lambda: {str(kind.member(each)) for each in members} == {"no majority"}, "three nodes alone", 60)
    for link in group.topology.links:
        group.link(link.name).enable()
    wait_until_whole(group)
    write(group)

    assert 1 == len(counts(group))
    assert dict.fromkeys(NODES, 0) == passed_by(group)


@pytest.mark.long
def test_a_single_leader_takes_effect_because_all_members_start_together(group):
    """The group says which members lead: a member that is started with another value than the others is refused."""
    told = "performance_schema.replication_group_communication_information"
    asked = StartOptions(variables={"group_replication_paxos_single_leader": "ON"})
    found = []
    for options in (asked, StartOptions()):
        start_options.run_with(group, dict.fromkeys(NODES, options))
        wait_until_whole(group)
        found.append(
            len(str(kind.Group(group).writer().value(f"SELECT write_consensus_leaders_actual FROM {told}")).split(","))
        )

    assert found == [1, 3]


@pytest.mark.long
def test_nodes_that_start_without_a_majority_are_not_said_to_serve(group):
    """They answer and are OFFLINE. The command that the message names brings the group back."""
    nodes.act(group, "kill", ["node2", "node3"])
    proofs = nodes.act(group, "start", ["node2", "node3"])

    assert [proof.ok for proof in proofs] == [False, False]
    assert all("OFFLINE; no majority: node1 reaches 1 of 3 members" in proof.found for proof in proofs)
    assert kind.Group(group).state("node1", "").says.startswith("ONLINE, no majority: accepts no write")
    force, unset = re.findall(r'./lab sql node1 --lab \S+ -e "([^"]*)"', proofs[0].found)
    with suppress(OutcomeUnknown):
        sql_files.run_typed(group, "node1", force, lambda _statement, _rows: None)
    wait_until(lambda: group.node("node1").answers() and kind.primary(group) == "node1", "node1 to go on", 120)
    sql_files.run_typed(group, "node1", unset, lambda _statement, _rows: None)
    wait_until_whole(group)


@pytest.mark.long
def test_a_commit_that_is_rolled_back_without_a_majority_is_unknown(group):
    """The member's error comes after others may have got the transaction: 3100 or 3101."""
    kind.Group(group).take_over("node1")
    server = group.node("node1").server()
    server.execute("SET GLOBAL group_replication_unreachable_majority_timeout = 2")
    for link in group.topology.links:
        if "node1" in (link.source, link.target):
            group.link(link.name).cut()
    client = ApplicationClient(server.as_application)

    answer = client.transact(["INSERT INTO lab.crossed VALUES ()"])

    client.close()
    # Its restart takes the setting back, and lets it join again at once.
    group.node("node1").kill()
    assert answer.code in (3100, 3101), answer
    assert answer.outcome is Outcome.UNKNOWN


@pytest.mark.long
def test_a_group_killed_as_a_whole_is_led_by_the_most_advanced(group):
    """Under the same name, with every row, and one node only bootstraps it."""
    write(group)
    before, history = counts(group), kind.member(group.node("node1").server()).history
    logged = {node: len(group.node(node).logs("all")) for node in NODES}
    for node in NODES:
        group.node(node).kill()
    for node in NODES:
        group.node(node).start_again()
    wait_until_whole(group)

    ways = [kind.Group.returned(group.node(node).logs("all")[logged[node] :]) for node in NODES]
    assert 1 == ways.count(("led", 0)) and None not in ways
    assert before == counts(group)
    assert {history} == {kind.member(group.node(node).server()).history for node in NODES}
