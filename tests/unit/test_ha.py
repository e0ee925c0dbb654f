"""Is what Pacemaker says of its cluster read right, and is nothing moved to where it cannot run?"""

import time

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.topology import TopologyNode
from replication_lab.replication import pacemaker as cluster_manager
from replication_lab.world import clock
from replication_lab.world.machines import drbd, pacemaker
from replication_lab.world.machines.pacemaker import parse_status

from tests.fakes.parts import LabOfNames

SERVICE = ("fs_mysql", "p_ip_mysql", "mysqld")
ADDRESS = "10.9.255.254"


def member(name, online=True, standby=False, unclean=False, coordinator=False):
    """Return a machine as crm_mon prints it."""
    said = {"online": online, "standby": standby, "unclean": unclean, "is_dc": coordinator}
    return f'<node name="{name}" ' + " ".join(f'{key}="{str(value).lower()}"' for key, value in said.items()) + "/>"


def copy(name, role, node, failed=False):
    """Return a resource as crm_mon prints it, on a machine or nowhere."""
    where = f'<node name="{node}" id="1"/>' if node else ""
    return f'<resource id="{name}" resource_agent="a" role="{role}" failed="{str(failed).lower()}">{where}</resource>'


def said(serving="node1", other="node2", members=None, quorum="true", group_role="Started", failures=""):
    """Return what `cluster status` prints while one machine serves, and its peer has the disk too."""
    group = "".join(copy(name, group_role, serving) for name in SERVICE)
    disks = copy("p_drbd_mysql", "Promoted", serving) + copy(
        "p_drbd_mysql", "Unpromoted" if other else "Stopped", other
    )
    pings = copy("p_ping", "Started", "node1") + copy("p_ping", "Started", "node2")
    return f"""<pacemaker-result>
        <summary><current_dc present="true" name="node1" with_quorum="{quorum}"/></summary>
        <nodes>{members or member("node1", coordinator=True) + member("node2")}</nodes>
        <resources>
          <group id="g_mysql">{group}</group>
          <clone id="ms_drbd_mysql">{disks}</clone>
          <clone id="cl_ping">{pings}</clone>
        </resources>
        <failures>{failures}</failures>
      </pacemaker-result>"""


class Pair(LabOfNames):
    """A lab of two machines whose cluster has a given status; commands to it are stored, and change it."""

    name = "lab-drbd-ha"

    class topology:
        nodes = (TopologyNode("node1", "peer"), TopologyNode("node2", "peer"))
        source = nodes[0]
        node = staticmethod(lambda name: next(each for each in Pair.topology.nodes if each.name == name))

    disk = " 0: cs:Connected ro:Secondary/Primary ds:UpToDate/UpToDate C r-----\n"

    def __init__(self, text, answers="node1", obeys=None):
        self.text, self.answers, self.obeys, self.told, self.state_by_service = text, answers, obeys, [], {}

    def state_of(self, node):
        return self.state_by_service.get(node, "running"), 0

    def run(self, service, *command):
        if service == "client":
            return self._served()
        if self.text is None:
            raise LabError(f"{service} is gone", "a running container")
        _guest, program, word, *words = command
        if program == "resource":
            return self.disk
        if word in ("status", "address"):
            return self.text if word == "status" else f"{ADDRESS}/16\n"
        self.told.append((word, *words))
        self.text, self.answers = self.obeys or (self.text, self.answers)
        return ""

    def _served(self):
        if not self.answers:
            raise LabError("nobody answers", "a server")
        return f"{self.answers}\n"


# --- read -------------------------------------------------------------------------------------------------------------


def test_a_whole_cluster_is_read():
    """Quorum, members, the place of each copy, and the serving machine."""
    found = parse_status(said())

    assert (True, "node1", []) == (found.quorum, found.serving, found.failures)
    assert ("node1", "node2") == (found.where("p_drbd_mysql", "Promoted"), found.where("p_drbd_mysql", "Unpromoted"))
    assert found.members["node1"].coordinator and not found.members["node2"].coordinator
    assert ["g_mysql"] * 3 + ["ms_drbd_mysql"] * 2 + ["cl_ping"] * 2 == [each.part_of for each in found.resources]


def test_a_server_that_has_not_started_serves_nobody():
    """An address that has moved before its server is no service."""
    assert "" == parse_status(said(group_role="Stopped")).serving


@pytest.mark.parametrize(
    ("key", "what"), [("mysqld_start_0", "mysqld_start"), ("mysqld_monitor_5000", "mysqld_monitor_5000")]
)
def test_a_failure_is_read_with_its_reason(key, what):
    """What failed, where, and why; an interval tells two monitors of a resource apart."""
    text = said(failures=f'<failure op_key="{key}" node="node2" exitstatus="error" exitreason="no disk"/>')

    assert [f"{what} on node2: no disk"] == parse_status(text).failures


@pytest.mark.parametrize("text", ["", "crm_mon: connection failed", "<pacemaker-result>"])
def test_anything_else_than_the_managers_answer_is_an_error(text, refused):
    """A manager that does not run has no XML."""
    assert "crm_mon's XML" == refused(parse_status, text).expected


# --- proofs, and what spoils them -------------------------------------------------------------------------------------

LOST = member("node1", coordinator=True) + member("node2", online=False, unclean=True)
STANDBY = member("node1", coordinator=True) + member("node2", standby=True)


@pytest.mark.parametrize(
    ("text", "answers", "ok"),
    [
        (said(), "node1", [True, True, True]),
        (said(serving="node2", other="node1"), "node2", [True, True, True]),
        (said(quorum="false"), "node1", [False, True, True]),
        (said(members=LOST), "node1", [False, True, True]),
        (said(members=STANDBY, other=""), "node1", [False, False, True]),
        (said(group_role="Stopped"), "", [True, False, False]),
        (said(), "node2", [True, True, False]),
        (said(), "", [True, True, False]),
    ],
)
def test_a_cluster_is_proved_by_its_members_its_resources_and_a_client(text, answers, ok):
    """Each of the three can be untrue alone."""
    assert ok == [proof.ok for proof in cluster_manager.prove_service(Pair(text, answers))]


def test_a_service_beside_its_disk_is_no_whole_cluster():
    """The group belongs where the disk is promoted."""
    text = said().replace('role="Promoted"', 'role="X"').replace('role="Unpromoted"', 'role="Promoted"')

    assert [True, False] == [proof.ok for proof in cluster_manager._prove_status(parse_status(text))]


def test_what_a_machine_runs_is_said_in_the_clusters_words():
    """The clone with its role, and the group with its parts."""
    found = parse_status(said())

    assert found.runs("node1").endswith("runs g_mysql (fs_mysql p_ip_mysql mysqld), ms_drbd_mysql Promoted, cl_ping")
    members = member("node1", online=False, unclean=True) + member("node2", True, True, False, True)
    assert "quorum: node1 lost, node2 standby (coordinator)" == parse_status(said(members=members)).who()


# --- moved ------------------------------------------------------------------------------------------------------------

MOVED = said("node2", "", members=member("node1", standby=True) + member("node2", coordinator=True)).replace(
    copy("p_ping", "Started", "node1"), copy("p_ping", "Stopped", "")
)


def test_a_machine_that_serves_hands_over_and_then_stands_by():
    """It takes until clients reach its peer, and until no resource is left on it."""
    pair = Pair(said(), obeys=(MOVED, "node2"))

    assert cluster_manager.ManagedMachines(pair).standby("node1").seconds >= 0
    assert [("standby", "node1")] == pair.told


@pytest.mark.parametrize("text", [said(serving="node2", other="node1", members=LOST), said(group_role="Stopped")])
def test_the_last_machine_does_not_stand_by_while_nobody_serves(text, refused):
    """Of one that was lost a moment ago the cluster goes on saying that it serves."""
    pair = Pair(text)

    assert "node2 does not run the service" in refused(cluster_manager.ManagedMachines(pair).standby, "node1").found
    assert [] == pair.told


@pytest.mark.parametrize(("state", "next_step"), [("exited", "start"), ("paused", "start")])
def test_who_is_dead_or_frozen_is_not_waited_for(state, next_step, refused):
    """It is for a person to start it, and the error says how."""
    pair = Pair(said())
    pair.state_by_service = {"node2": state}
    errors = [
        refused(cluster_manager.ManagedMachines(pair).online, "node2"),
        refused(cluster_manager.ManagedMachines(pair).standby, "node1"),
    ]

    assert {f"./lab {next_step} node2"} == {error.next_step for error in errors}
    assert [] == pair.told


def test_a_machine_that_does_not_serve_moves_nothing():
    """It only goes into standby."""
    gone = MOVED.replace("node1", "x").replace("node2", "node1").replace('"x"', '"node2"')
    pair = Pair(said(), obeys=(gone, "node1"))

    assert cluster_manager.ManagedMachines(pair).standby("node2").seconds is None


@pytest.mark.parametrize("text", [said(members=STANDBY, other=""), said(members=LOST), said(other="")])
def test_service_is_not_moved_to_where_it_cannot_run(text, refused):
    """A peer that is in standby, is lost, or has no disk: the service would end."""
    pair = Pair(text)
    error = refused(cluster_manager.ManagedMachines(pair).standby, "node1")

    assert "node2 cannot take over" in error.found and "./lab online node2" == error.next_step
    assert [] == pair.told


def test_service_is_not_moved_to_old_data(refused):
    """No machine could be promoted there, and the first machine would have stopped serving."""
    pair = Pair(said())
    pair.disk = pair.disk.replace("Connected", "WFConnection").replace("/UpToDate", "/DUnknown")
    error = refused(cluster_manager.ManagedMachines(pair).standby, "node1")

    assert "node2 cannot take over: Secondary, WFConnection" in error.found
    assert [] == pair.told


@pytest.mark.parametrize("act", ["standby", "online"])
def test_an_unknown_machine_of_a_cluster_is_refused(act, refused):
    """With the nearest that there is."""
    pair = Pair(said())

    assert "did you mean node1?" in refused(getattr(cluster_manager.ManagedMachines(pair), act), "nod1").found
    assert [] == pair.told


def test_a_victim_that_serves_is_not_resolved_behind_the_managers_back(refused):
    """The end of its server would pass for a failure, and be undone; its peer can be the victim."""
    pair = Pair(said())
    pair.disk = " 0: cs:StandAlone ro:Primary/Unknown ds:UpToDate/DUnknown C r-----\nsplit-brain\n"

    kind = cluster_manager.ManagedMachines(pair)

    assert "./lab rejoin node2 --discard-errant" == refused(kind.take_back, "node1", discard_errant=True).next_step
    assert [] == pair.told


@pytest.mark.parametrize("error", [None, LabError("the server did not start", "a server")])
def test_pacemaker_leaves_a_server_alone_that_others_restart(error, monkeypatch, refused):
    """It would treat the stop as a failure; afterwards it is in charge again, also if the server did not start."""

    def serves(_peer):
        if error:
            raise error

    monkeypatch.setattr(drbd.Peer, "wait_until_serves", serves)
    pair = Pair(said())
    nodes = cluster_manager.ManagedMachines(pair)
    refused(nodes.settle) if error else nodes.settle()

    mode = ("--name", "maintenance-mode")
    assert pair.told == [(*mode, "--update", "true"), ("fill_redo",), (*mode, "--delete")]


def test_a_cluster_of_which_nobody_answers_says_so(refused):
    """With what each machine said."""
    error = refused(pacemaker.PacemakerCluster(Pair(None)).status)

    assert "node1 is gone" in error.found and "node2 is gone" in error.found


@pytest.mark.parametrize(("text", "whole"), [(said(), True), (said(members=LOST), False), (said(other=""), False)])
def test_a_machine_that_was_lost_a_moment_ago_is_not_taken_for_one_with_a_disk(text, whole):
    """The cluster goes on saying what it knew of it last."""
    assert whole is cluster_manager.both_have_disks(parse_status(text))[0]


@pytest.mark.parametrize(
    ("text", "answers", "found"),
    [
        (said(), "node1", "the service IP is on node1; quorum: node1 online"),
        (said(serving="node2", other="node1", quorum="false"), "node2", "is on node2; no quorum: node1 online"),
    ],
)
def test_a_service_that_does_not_move_is_given_up_with_what_the_cluster_says(
    text, answers, found, monkeypatch, refused
):
    """The wait ends. A machine without a quorum serves until its watchdog resets it, and no longer."""
    now = iter(range(0, 10_000, 50))
    monkeypatch.setattr(pacemaker.clock, "timer", lambda: next(now))
    monkeypatch.setattr(pacemaker.clock.time, "sleep", lambda _seconds: None)
    error = refused(pacemaker.PacemakerCluster(Pair(text, answers)).wait_until_served_by, "node2")

    assert "no progress for 180 s; last state: " in error.found and found in error.found
    assert "node2 to run the service" == error.expected and error.next_step.startswith("./lab status")


# --- shown ------------------------------------------------------------------------------------------------------------


def test_the_state_of_a_machine_has_members_resources_and_failures_and_the_lab_its_service():
    """And that no machine has the service's address."""
    failures = '<failure op_key="mysqld_start_0" node="node2" exitstatus="error" exitreason="no disk"/>'
    kind = cluster_manager.ManagedMachines(Pair(said(failures=failures), answers=""))
    found = kind.state("node2", "peer")

    assert "quorum: node1 online (coordinator), node2 online" in found.says
    assert "node2 runs ms_drbd_mysql Unpromoted, cl_ping; failed: mysqld_start on node2: no disk" in found.says
    assert found.details["cluster"].members["node2"].online and found.details["resource"].connection == "Connected"
    assert f"service IP {ADDRESS} is not active on any node" == kind.service()


# --- started again ----------------------------------------------------------------------------------------------------

BELIEVED = member("node1", coordinator=True) + member("node2")
FENCED = member("node1", coordinator=True) + member("node2", online=False)


class Losing(Pair):
    """A lab whose machine node2 was just killed; each look at the cluster finds the next state, the last one again."""

    def __init__(self, *states):
        super().__init__(None)
        self.left = list(states)
        self.state_by_service = {"node2": "exited"}

    def run(self, service, *command):
        self.text = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        return super().run(service, *command)


@pytest.mark.parametrize(
    ("states", "waits"),
    [
        ([said(members=BELIEVED), said(members=LOST), said(members=LOST), said(members=FENCED)], True),
        ([said(members=FENCED, quorum="false"), said(members=FENCED)], True),
        ([said(members=FENCED)], False),
    ],
)
def test_a_killed_machine_is_started_once_it_is_fenced(monkeypatch, states, waits):
    """Pacemaker first reports its last state, then that the machine is lost; the user reads why the start waits."""
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    lab, told = Losing(*states), []
    cluster_manager.ManagedMachines(lab).wait_until_startable(["node2"], told.append)

    assert lab.left == [said(members=FENCED)]
    assert bool(told) == waits and all("fenced node2" in line for line in told)


def test_a_machine_that_is_never_fenced_is_not_started(monkeypatch, refused):
    """Sabotage: the cluster never knows whether the machine is dead."""
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(clock, "STALLED_SECONDS", 0)
    machines = cluster_manager.ManagedMachines(Losing(said(members=LOST)))
    error = refused(machines.wait_until_startable, ["node2"], [].append)

    assert "node2 lost" in error.found and "./lab status" in error.next_step


def test_without_a_running_machine_nothing_fences():
    """After both were killed, each is started at once."""
    lab = Losing(said(members=LOST))
    lab.state_by_service["node1"] = "exited"
    cluster_manager.ManagedMachines(lab).wait_until_startable(["node2"], pytest.fail)
