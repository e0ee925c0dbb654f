"""Does a run of drills notice a lab that misbehaves, and renew it?"""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.drill_result import judge
from replication_lab.model.lab.succession import TakenOver
from replication_lab.replication.galera import GaleraCluster
from replication_lab.runner import drill as drill_run
from replication_lab.runner import drill_set
from replication_lab.witnesses.witness import Witnesses

from tests.fakes.lab import FakeLab
from tests.fakes.parts import LabOfNames
from tests.fakes.server import FakeServer
from tests.unit.synthetic_drill import CUT, FILE, GALERA, Upped, evidence, parsed

ASYNC = drill_set.lab_request("async", "mariadb", [])


# --- drills on a lab that misbehaves ----------------------------------------------------------------------------------


@pytest.fixture
def cluster(fake_world):
    return FakeLab(fake_world(), GALERA, "mariadb")


@pytest.fixture
def drilled(cluster, tmp_path, monkeypatch):
    """Do a drill on the cluster; `undone` is called when its fault has ended. Return the evidence."""
    monkeypatch.setattr(drill_run, "observing", lambda *_: nullcontext(Witnesses([])))

    def run(drill, undone=lambda: None):
        def tell(line):
            if line.endswith("undone"):
                undone()

        return drill_run.run_drill(cluster, drill_run.DrillRequest(drill, 7), tmp_path / "ledger", tell)

    return run


def test_a_drill_goes_from_healthy_nodes_to_equal_copies(drilled):
    """What the tests below break."""
    found = drilled(parsed())

    assert found.doubts == [] and [each.step.fault for each in found.acted] == ["cut"]
    assert len(found.copies) == 3 and all(copy.ranges == found.copies[0].ranges != [] for copy in found.copies)


def test_a_node_that_ends_instead_of_coming_back_is_not_waited_for(cluster, drilled):
    """Its exit status is the reason."""
    found = drilled(parsed(), undone=lambda: cluster.died.update(node3="no space left"))

    assert found.unrecovered == "node3 exited with status 1 instead of restarting"
    assert found.doubts == found.copies == [] and [each.step.fault for each in found.acted] == ["cut"]


def test_a_fault_that_stays_is_undone_after_the_rows_were_read(cluster, drilled, monkeypatch):
    """Only the nodes that take writes are read: here one says that it is in no Primary component."""
    seen = []
    monkeypatch.setattr(GaleraCluster, "accepts_writes", bool)
    monkeypatch.setattr(GaleraCluster, "hindrance", lambda _self, name: "non-Primary" if name == "node3" else "")
    copy = drill_run.DrillRun._copy
    monkeypatch.setattr(
        drill_run.DrillRun,
        "_copy",
        lambda *asked: [seen.append(cluster.link("node3-node1").enabled()), copy(*asked)][1],
    )
    found = drilled(parsed(FILE.replace("seconds: 3", "seconds: 3, recover: none")))

    assert found.doubts == [] and [each.node for each in found.copies] == ["node1", "node2"]
    assert seen == [False, False] and cluster.link("node3-node1").enabled()
    assert found.drill.changes_lab and found.returns == {}


class DeadLab(LabOfNames):
    """A lab whose servers do not answer."""

    topology = GALERA

    def server(self, name):
        raise LabError(f"{name} does not answer", "a connection")

    def logs(self, name, lines):
        if name == "node2" and self.reads_no_more:
            raise LabError("gone", "a container")
        return f"{lines} lines of {name}"

    reads_no_more = False


@pytest.mark.parametrize("ends", [{}, {"node3": "no space left"}])
def test_settings_are_put_on_every_node_and_taken_back(cluster, drilled, monkeypatch, ends):
    """Also after a failure."""
    wanted, had = {"sync_binlog": 0, "binlog_format": "MIXED"}, {"sync_binlog": "1", "binlog_format": "ROW"}
    for server in cluster.servers.values():
        server.set_global(**had)
    told = []
    monkeypatch.setattr(FakeServer, "set_global", lambda server, **values: told.append((server.name, values)))
    found = drilled(msgspec.structs.replace(parsed(), settings=wanted), undone=lambda: cluster.died.update(ends))
    names = list(cluster.servers)

    # A server that a fault restarted has its start values, so they are put on again.
    times = 1 if ends else 2
    assert bool(found.unrecovered) == bool(ends)
    assert told == [*times * [(name, wanted) for name in names], *((name, had) for name in names)]


def test_an_interruption_that_a_failing_undo_covers_stops_the_drill(monkeypatch, tmp_path):
    """It is no doubt about the lab: the drills after it are not done either."""

    def stopped(*_):
        try:
            raise KeyboardInterrupt("SIGINT")
        finally:
            raise LabError("node3 cannot be started", "a node that serves")

    monkeypatch.setattr(drill_run, "DrillRun", lambda *_: SimpleNamespace(run=stopped))
    with pytest.raises(KeyboardInterrupt, match="SIGINT"):
        drill_run.run_drill(None, drill_run.DrillRequest(parsed(), 7), tmp_path / "ledger", lambda _: None)


def test_a_lab_that_fails_is_a_doubt_not_a_crash(monkeypatch, tmp_path):
    """The reason is in the evidence, and so in every verdict; logs are kept, and their ends told, for CI."""
    monkeypatch.setattr(drill_run, "WHOLE_SECONDS", 0)
    lab, told = DeadLab(), []

    def tell(line):
        told.append(line)
        lab.reads_no_more = "to be Synced" in line or lab.reads_no_more

    found = drill_run.run_drill(lab, drill_run.DrillRequest(parsed(), 7), tmp_path / "ledger", tell)

    assert "to be Synced" in found.doubts[0]
    assert "    25 lines of node1" in told and any("node2: does not answer" in line for line in told)
    assert (tmp_path / "test-node1.log").read_text() == "all lines of node1"
    assert not (tmp_path / "test-node2.log").exists()
    assert judge(found, []).judgements[0].verdict is Verdict.UNKNOWN


def test_who_serves_first_is_arranged_before_anything_is_written(cluster, drilled, monkeypatch, tmp_path):
    """As soon as every node is whole."""

    def refuse(_nodes, name):
        raise LabError(f"{name} does not want to", "another node")

    monkeypatch.setattr(type(replication.of(cluster)), "take_over", refuse)
    found = drilled(msgspec.structs.replace(parsed(), initial_primary="node2"))

    assert found.doubts == ["node2 does not want to"] and found.before == {}
    assert not (tmp_path / "ledger").exists()


def test_what_a_take_over_lost_is_in_the_evidence_and_the_nodes_it_replaced_are_taken_back(
    cluster, drilled, monkeypatch
):
    """Such a node gives up what only it has; the lost transactions are a figure where they can be counted."""
    kind, told = type(replication.of(cluster)), []
    lost = TakenOver("node1", "node2", lacks="node1 has 3 transactions", lost=3, replaced=["node1"])
    monkeypatch.setattr(kind, "take_over_after_loss", lambda _nodes, _name: lost)
    monkeypatch.setattr(kind, "take_back", lambda _, name, discard_errant: told.append((name, discard_errant)))
    step = msgspec.structs.replace(parsed().steps[0], failover="node2")
    found = drilled(msgspec.structs.replace(parsed(), steps=[step]))

    assert found.doubts == [] and told == [("node1", True)]
    assert found.taken_over == [lost] and found.promoted_s is not None
    assert judge(evidence(taken_over=[lost, lost]), []).figures["lost_transactions"] == 6
    assert "lost_transactions" not in judge(evidence(taken_over=[TakenOver("a", "b")]), []).figures


# --- labs of a run's own ----------------------------------------------------------------------------------------------


@pytest.fixture
def ups(monkeypatch):
    """Return the list of what `labs.up` returns, one after another: a lab, or an error."""
    answers = []

    def up(*_, **__):
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(drill_set.up, "up", up)
    return answers


def test_drills_share_a_lab_until_it_is_renewed(ups):
    """The last one is gone with the block."""
    first, second = Upped(), Upped()
    ups += [first, second]

    own: Any
    with drill_set.Labs(ASYNC, print) as own:
        assert own.lab() is own.lab() is first
        own.renew()
        assert first.gone and own.lab() is second
    assert second.gone


STILL_CUT = msgspec.structs.replace(
    evidence().acted[0],
    proofs=[CUT, Proof(what="node1-node3 is as it was before the fault", found="no answer", ok=False)],
)


@pytest.mark.parametrize(
    ("drill", "seen", "renewed"),
    [
        pytest.param(("async", "kill-replica"), {}, False, id="as it was"),
        pytest.param(("async", "kill-replica"), {"doubts": ["the replica did not come back"]}, True, id="in doubt"),
        pytest.param(("async", "kill-replica"), {"acted": [STILL_CUT]}, True, id="its fault is still there"),
        pytest.param(("async", "lose-source"), {}, True, id="another source"),
    ],
)
def test_a_lab_on_which_nothing_can_be_proved_any_more_is_taken_away(ups, monkeypatch, tmp_path, drill, seen, renewed):
    """The next drill has one of its own."""
    lab, what = Upped(), drill_set.load(*drill)
    ups.append(lab)
    monkeypatch.setattr(drill_set, "run_drill", lambda *_: evidence(drill=what, **seen))
    own = drill_set.Labs(ASYNC, print)

    assert own.do(drill_run.DrillRequest(what, 7), tmp_path / "ledger") == evidence(drill=what, **seen)
    assert lab.gone is renewed


def test_a_start_that_was_interrupted_is_not_tried_again(ups):
    """Though the lab could not be removed, which is an error as that of a lab that was not proved."""
    covering = LabError("the lab cannot be removed", "an engine that answers")
    covering.__context__ = KeyboardInterrupt("SIGTERM")
    ups += [covering, Upped()]

    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        drill_set.Labs(ASYNC, print).lab()
    assert len(ups) == 1


def test_a_lab_that_was_not_proved_is_tried_again(ups, refused):
    """A few times: a machine has busy moments."""
    late = LabError("the link is too slow", "a proof")
    ups += [late, Upped(), late, late, late]

    with drill_set.Labs(ASYNC, print) as own:
        own.lab()
    assert "too slow" in refused(drill_set.Labs(ASYNC, print).lab).found
    assert ups == []
