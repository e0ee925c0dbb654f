"""Do witnesses tell what others did to a cluster, a replicated disk and packet rules from what followed a fault?"""

import time
from types import SimpleNamespace

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.witnesses import sampled, servers
from replication_lab.witnesses.sampled import Changes, Following, Sampled
from replication_lab.witnesses.servers import Member
from replication_lab.witnesses.told_changes import ResourceStates, packet_rules
from replication_lab.world import clock, requests_made


@pytest.fixture(autouse=True)
def nothing_requested():
    requests_made._made.clear()


@pytest.fixture
def witness(monkeypatch):
    """Return a witness whose only node answers with what a test adds to a list; LabError where that is an error."""
    monkeypatch.setattr(sampled, "EVERY_SECONDS", 0.01)
    opened, lab = [], SimpleNamespace(refresh=lambda: None)
    lab.another = lambda: lab

    def of(answers, running=False):
        def reading(_asked):
            found = answers.pop(0) if answers else []
            if isinstance(found, LabError):
                raise found
            return found

        made = Sampled("it is so", lab, {"node1": reading}, lambda *_: "asked", lambda *_: running)
        opened.append(made)
        while answers:
            clock.pause(0.01)
        clock.pause(0.05)
        return made

    yield of
    for each in opened:
        each.close()


def contrary(seen, zero):
    return [each.what for each in seen.observation(zero).contrary]


def test_what_may_follow_from_a_fault_is_contrary_only_before_one(witness):
    """A cluster excludes a node that was killed; one that leaves by itself was interfered with."""
    zero = clock.timer()
    assert contrary(witness([[Following("it left")]]), zero) == ["it left"]
    with requests_made.noted("kill", "node2"):
        pass
    assert contrary(witness([[Following("it left"), "it was set"]]), zero) == ["it was set"]
    assert contrary(witness([[Following("it left")]]), clock.timer()) == []


@pytest.mark.parametrize(
    ("kind", "what", "excuses"),
    [
        ("DELETE", "127.0.0.1:8474", True),
        ("archive", "node1", False),
        (requests_made.COMMAND, "spindle fail", True),
        (requests_made.COMMAND, "spindle stats", False),
        (requests_made.COMMAND, "guest resource promote", True),
        (requests_made.COMMAND, "guest resource status", False),
        (requests_made.COMMAND, "sysbench run", False),
        (requests_made.COMMAND, "bash -c put 1", True),
        (requests_made.COMMAND, "bash -c steps\nshow", False),
    ],
)
def test_only_changes_of_links_nodes_and_disks_excuse_it(witness, kind, what, excuses):
    """A load, and a command that reads, change neither."""
    zero = clock.timer()
    with requests_made.noted(kind, what):
        pass
    assert contrary(witness([[Following("it left")]]), zero) == ([] if excuses else ["it left"])


def test_a_node_that_runs_and_does_not_answer_leaves_a_gap(witness, monkeypatch):
    """What it does meanwhile is not known; one that a fault ended does nothing."""
    silent = [[], *(LabError("silent", "an answer") for _ in range(20)), []]
    zero = clock.timer()
    assert witness(list(silent), running=True).observation(zero).gap_s > 0.15
    assert witness(list(silent)).observation(zero).gap_s < 0.15


# --- clusters ---------------------------------------------------------------------------------------------------------


class FakeMember:
    """A server of a cluster, whose state a test changes."""

    name, address = "node1", ("of this test", 2)

    def __init__(self):
        self.now = {"state": "Synced", "view": "3", "wsrep_desync": "0"}

    def seen_by(self, member, **changes):
        self.now |= changes
        return member(self)


@pytest.fixture
def member():
    requests_made._settings.clear()
    return Member(lambda server: dict(vars(server)["now"]))


def test_each_change_of_a_node_is_told_with_what_it_was_before(member):
    """Also that back: a node that desynchronized for a moment is in sync again."""
    server = FakeMember()
    assert server.seen_by(member) == []
    assert server.seen_by(member, state="Donor/Desynced", wsrep_desync="1") == [
        "state was Donor/Desynced on node1, after Synced",
        "wsrep_desync was 1 on node1, after 0",
    ]
    assert (
        server.seen_by(member, state="Synced", wsrep_desync="0")[0] == "state was Synced on node1, after Donor/Desynced"
    )


def test_what_a_cluster_does_after_a_fault_is_told_as_that_and_what_is_set_is_not(member):
    """No fault sets a variable."""
    server = FakeMember()
    server.seen_by(member)
    state, variable = server.seen_by(member, view="4", wsrep_desync="1")
    assert isinstance(state, Following) and not isinstance(variable, Following)


def log_of(*lines):
    """Return a service with a log that a test writes."""
    found = SimpleNamespace(lines=list(lines), container=SimpleNamespace(id="f00d"))
    found.dated_logs = lambda: list(found.lines)
    return found


@pytest.fixture
def clustered(monkeypatch):
    """Return the witness of a cluster of one node, by its kind and its log."""
    opened = []

    def of(log, kind="galera", read=lambda _: {"state": "Synced"}):
        monkeypatch.setitem(servers.READ, kind, read)
        log.server = lambda: SimpleNamespace(answering_within=lambda _: FakeMember())
        topology = SimpleNamespace(replication=kind, nodes=[SimpleNamespace(name="node1")])
        lab = SimpleNamespace(topology=topology, node=lambda _: log, service=lambda _: log, refresh=lambda: None)
        lab.another = lambda: lab
        opened.append(servers.members(lab))
        return opened[-1]

    yield of
    for each in opened:
        each.close()


def test_a_node_that_never_answers_is_not_observed(clustered):
    """As one that does not tell the lab's account the state of its cluster."""

    def silent(_server):
        raise LabError("denied", "an account that may read it")

    zero, witness = clock.timer(), clustered(log_of(), read=silent)
    clock.pause(0.3)
    assert witness.observation(zero).gap_s >= 0.3


def test_a_change_between_two_readings_is_in_the_log_of_the_node(clustered):
    """What was logged before the witness began is not its concern, whatever the clock says."""
    log = log_of((time.time() + 60, "Shifting SYNCED -> OPEN"))
    zero, witness = clock.timer(), clustered(log)
    log.lines.append((time.time() + 60.1, "Shifting SYNCED -> DONOR (TO: 5)"))
    assert contrary(witness, zero) == ["node1 logged: Shifting SYNCED -> DONOR"]


def test_another_primary_is_a_doubt_after_a_fault_too_unless_the_lab_asked_for_it(clustered):
    """A group elects one by itself after a fault, but no group starts the operation by itself."""
    log = log_of()
    zero, witness = clock.timer(), clustered(log, "group")
    with requests_made.noted("kill", "node2"):
        log.lines.append((time.time(), "'Starting group operation local execution: Primary election change'"))
    said = "node1 logged: Starting group operation local execution: Primary election change"
    assert contrary(witness, zero) == [said]
    with requests_made.noted("primary", "node2"):
        pass
    assert contrary(witness, zero) == []


def test_a_log_that_cannot_be_read_is_a_doubt(clustered):
    """As with a logging driver that keeps nothing, or one that keeps only the newest lines."""
    log = log_of((1.0, "started"))
    zero, witness = clock.timer(), clustered(log)
    log.lines = [(9.0, "Shifting SYNCED -> OPEN")]
    assert contrary(witness, zero) == ["not known what node1 logged: the log of node1 had lost its first lines"]
    log.container.id = "anew"
    assert contrary(witness, zero) == []

    def unread():
        raise LabError("the log of node1 cannot be read", "a log that the engine keeps")

    log.dated_logs = unread
    assert contrary(witness, zero) == ["not known what node1 logged: the log of node1 cannot be read"]
    with pytest.raises(LabError, match="cannot be read"):
        clustered(log)


def test_a_variable_that_the_lab_sets_itself_is_its_own(member):
    """As an experiment about a node that is desynchronized."""
    server = FakeMember()
    server.seen_by(member)
    requests_made.note_setting(server.address, "wsrep_desync", "ON")
    assert server.seen_by(member, wsrep_desync="1") == []


def test_a_server_that_was_started_again_is_compared_but_for_what_it_lost(member):
    """Its variables have their start values; its view tells that it was away."""
    server, again = FakeMember(), FakeMember()
    server.seen_by(member, wsrep_desync="1")
    assert again.seen_by(member, view="5") == ["view was 5 on node1, after 3"]


# --- replicated disks -------------------------------------------------------------------------------------------------

BEFORE = [
    "exists resource name:lab role:Secondary suspended:no",
    "exists connection name:lab peer-node-id:0 conn-name:peer connection:Connected role:Primary",
    "exists device name:lab volume:0 minor:0 disk:UpToDate",
    "exists -",
]


def answering(*lines):
    return SimpleNamespace(ask=lambda: "\n".join(lines))


@pytest.fixture
def resource():
    found = ResourceStates("node2", managed=False)
    assert found.changes(answering(*BEFORE)) == []
    return found


def change(rest):
    return f"change {rest}"


@pytest.mark.parametrize(
    ("line", "words", "by_itself"),
    [
        (change("resource name:lab role:Primary"), "role was Primary on node2, after Secondary", False),
        (
            change("connection name:lab conn-name:peer connection:Disconnecting"),
            "connection was Disconnecting on node2, after Connected",
            False,
        ),
        (
            change("connection name:lab conn-name:peer connection:NetworkFailure"),
            "connection was NetworkFailure on node2, after Connected",
            True,
        ),
        (
            change("connection name:lab conn-name:peer role:Unknown"),
            "peer's role was Unknown on node2, after Primary",
            True,
        ),
        (change("device name:lab volume:0 disk:Attaching"), "disk was Attaching on node2, after UpToDate", False),
        ("destroy device name:lab volume:0 minor:0", "disk was gone on node2, after UpToDate", False),
    ],
)
def test_each_change_is_told_and_whether_a_fault_can_be_its_cause(resource, line, words, by_itself):
    """A lost peer ends a connection; roles change by commands only."""
    (found,) = resource.changes(answering(line))
    assert (found, isinstance(found, Following)) == (words, by_itself)


def test_a_manager_changes_roles_by_itself_after_a_fault():
    """Pacemaker promotes the machine that is left."""
    found = ResourceStates("node2", managed=True)
    found.changes(answering(*BEFORE))
    assert isinstance(found.changes(answering(change("resource name:lab role:Primary")))[0], Following)


def test_lines_that_tell_no_change_are_left_out(resource):
    """A second list of all states, as after a new connection, is compared with the first."""
    assert (
        resource.changes(
            answering(*BEFORE, "call helper name:lab helper:before-resync-target", "change device disk:UpToDate")
        )
        == []
    )
    assert resource.changes(answering("exists device name:lab volume:0 disk:Outdated")) == [
        "disk was Outdated on node2, after UpToDate"
    ]


# --- what a program tells ---------------------------------------------------------------------------------------------


def test_a_change_during_a_request_of_this_process_is_its_own():
    """The program tells what happened, not for whom."""
    changes = Changes(lambda asked: asked.ask().splitlines(), lambda one: one.what == "node1", "f00d")
    assert changes(answering("it changed")) == ["it changed"]
    with requests_made.noted("kill", "node2"):
        assert changes(answering("it changed")) == ["it changed"]
    with requests_made.noted("kill", "node1"):
        assert changes(answering("it changed")) == []


def test_a_container_that_the_lab_started_may_change_for_a_while():
    """It makes its rules, or brings its disk up."""
    changes = Changes(lambda asked: asked.ask().splitlines(), lambda _: False, "node1")
    requests_made._made.append(requests_made.OwnRequest("start", "node1", clock.timer() - 30, clock.timer() - 29))
    assert changes(answering("it changed")) == []
    for container, ago in (("node1", 90), ("node2", 30)):
        requests_made._made[0] = requests_made.OwnRequest("start", container, clock.timer() - ago, clock.timer() - ago)
        assert changes(answering("it changed")) == ["it changed"]


@pytest.mark.parametrize(
    ("state", "request_", "should"),
    [("running", None, True), ("exited", None, False), ("running", "restart", False), ("running", "update", False)],
)
def test_a_service_that_runs_should_answer_unless_the_lab_just_changed_its_container(
    monkeypatch, state, request_, should
):
    """A machine that is stopped ends its programs before it has ended itself."""
    found = []
    monkeypatch.setattr(sampled, "Sampled", lambda *arguments: found.append(arguments[-1]))
    lab = SimpleNamespace(
        containers={"node1": SimpleNamespace(id="f00d")}, service=lambda _: SimpleNamespace(state=lambda: (state, 0))
    )
    sampled.told_by("it is so", lab, {}, lambda _: [])
    if request_:
        with requests_made.noted(request_, "f00d"):
            pass
    assert found[0](lab, "node1") is should


# --- packet rules -----------------------------------------------------------------------------------------------------

RULE = " EVENT: iptables -t nat -D LAB-TO-PEER -p tcp -j DNAT"


@pytest.fixture
def rules(monkeypatch):
    """Return the reading of a lab's only container that may change rules, and the names of all that are observed."""

    def container(image, *powers, manager="", number="f00d", network="default"):
        attrs = {"Config": {"Image": image}, "HostConfig": {"CapAdd": [*powers] or None, "NetworkMode": network}}
        return SimpleNamespace(id=number, attrs=attrs, labels={"replication-lab.manager": manager})

    lab = SimpleNamespace(
        containers={
            "node1": container("replication-lab/mariadb"),
            "sidecar1": container("replication-lab/sidecar", "NET_ADMIN"),
            "node1-host": container("replication-lab/pacemaker", "NET_ADMIN", number="7057"),
            "pacemaker-node1": container(
                "replication-lab/pacemaker", "NET_ADMIN", manager="pacemaker", network="container:7057"
            ),
            "vpn": container("of-a-user/vpn", "NET_ADMIN"),
        }
    )
    monkeypatch.setattr(
        "replication_lab.witnesses.sampled.Sampled",
        lambda _what, _lab, readings, *_: SimpleNamespace(readings=readings),
    )
    return vars(packet_rules(lab))["readings"]


def test_only_containers_of_the_lab_that_may_change_rules_are_observed(rules):
    """Those of a user need not have the program that tells, and a manager's own host is the manager's to change."""
    assert list(rules) == ["sidecar1"]


def test_each_change_of_a_rule_is_told_once(rules):
    """The number of the generation follows each change."""
    said = rules["sidecar1"](answering("since the last question:", RULE, "NEWGEN: GENID=2 PID=7 NAME=iptables"))
    assert said == ["sidecar1: iptables -t nat -D LAB-TO-PEER -p tcp -j DNAT"]


def test_rules_that_the_lab_changes_by_a_script_are_its_own(rules):
    """Another command of the lab is no reason for a change."""
    with requests_made.noted(requests_made.COMMAND, "mariadb -e x"):
        assert rules["sidecar1"](answering(RULE))
    with requests_made.noted(requests_made.COMMAND, "bash -c iptables -F"):
        assert rules["sidecar1"](answering(RULE)) == []


def test_what_a_source_tells_is_asked_after_what_the_engine_tells():
    """The moment of a reading is its end; a slow engine must not make an old answer a new one."""
    asked = []
    service = SimpleNamespace(addresses=lambda: asked.append("engine") or {"10.0.0.3"})
    reader = {"Host": "10.0.0.3:4711", "Command": "Binlog Dump"}
    source = SimpleNamespace(name="source", rows=lambda _: asked.append("source") or [reader])
    link = SimpleNamespace(name="source-replica", dialler="replica")

    assert servers._past(SimpleNamespace(service=lambda _: service), [link], source)
    assert asked == ["engine", "source"]
