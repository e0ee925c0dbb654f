"""The drills of a Galera cluster on real servers: data loss, downtime, recovery; all on one cluster."""

import signal

import pytest
from replication_lab.faults.cut import Cut
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.verdict import Verdict
from replication_lab.runner import drill_set
from replication_lab.runner.drill import DrillRequest, run_drill
from replication_lab.world import catalogue
from replication_lab.world.docker.service import Node
from replication_lab.world.packets.link import RunningLink

from tests.lab.conftest import things_of
from tests.lab.test_bad_luck import read_until
from tests.noise import ignoring_noise

SEED = 7


@pytest.fixture(scope="module")
def cluster(cluster, make_whole):
    """Yield the three nodes 85 ms apart, broken and repaired by one test after another."""
    make_whole(cluster)
    up.prove(cluster, catalogue.toxics_on(cluster.topology.toxics), print)
    yield cluster
    make_whole(cluster)


@pytest.fixture(scope="module")
def done(cluster, tmp_path_factory):
    """Return a function that runs a drill on the shared cluster, once, and returns its result."""
    folder, known = tmp_path_factory.mktemp("ledgers"), {}

    def do(name, what=None):
        if name not in known:
            ledger = folder / name
            with ignoring_noise():
                evidence = run_drill(cluster, DrillRequest(what or drill_set.load("galera", name), SEED), ledger, print)
            known[name] = drill_set.judged_as_found(evidence, ledger)
        return known[name]

    return do


def assert_as_expected(result, but: str = ""):
    """Check every expectation of the drill's own file but those of one figure, and the rows that all drills promise."""
    judged = [one for one in result.judgements if one.figure != but]
    assert {one.sentence: one.reason for one in judged if one.verdict is not Verdict.HOLDS} == {}
    assert result.doubts == []
    assert [result.figures[name] for name in ("lost", "phantoms", "duplicates", "diverged")] == [0, 0, 0, 0]
    assert result.figures["histories"] == 1


def test_a_killed_node_stalls_the_others_and_comes_back_by_ist(done):
    """The survivors wait until the group has excluded it, go on, and lose nothing."""
    result = done("kill-node")
    figures = result.figures

    assert_as_expected(result)
    assert min(figures["stall_s.node2"], figures["stall_s.node3"]) >= 1
    assert figures["stall_s.node1"] > figures["stall_s.node2"]
    assert figures["during.node2.acknowledged"] > 0 and figures["during.node3.acknowledged"] > 0
    assert figures["during.node1.acknowledged"] == 0
    assert figures["unknown.node1"] >= 1
    assert (result.evidence.returns["node1"].by, list(result.evidence.returns)) == ("IST", ["node1"])
    assert result.evidence.returns["node1"].writesets > 0


@pytest.mark.long
def test_a_minority_refuses_and_the_majority_goes_on(done):
    """Both sides know which one they are."""
    result = done("cut-node")
    views = result.evidence.acted[0].views

    assert_as_expected(result)
    assert result.figures["during.node3.error.1047"] > 0
    assert result.figures["during.node3.acknowledged"] == 0
    assert result.figures["during.node1.acknowledged"] > 0
    assert (str(views["node1"]), views["node3"].says) == ("Primary of 2", "non-Primary")
    assert result.evidence.returns["node3"].by == "IST"


def test_a_cut_link_is_relayed_in_less_time_than_an_exclusion_takes(done):
    """No node leaves; the gap is shorter than after a kill."""
    result, killed = done("cut-link"), done("kill-node")

    # Beside other tests, commits wait for a CPU more than for the link. The next test runs alone.
    assert_as_expected(result, but="latency_ratio")
    assert result.figures["rto_s"] < killed.figures["rto_s"]
    assert result.figures["stall_s.node1"] < killed.figures["stall_s.node2"]
    assert result.evidence.returns == {}


@pytest.mark.long
@pytest.mark.alone
def test_commits_take_longer_while_the_third_node_relays_them(done):
    """The whole drill as its file says, with the ratio of latencies."""
    assert_as_expected(done("cut-link"))


@pytest.mark.long
def test_a_black_hole_is_a_cut_that_nobody_was_told_of(done):
    """Silence excludes a node as ended connections do."""
    result = done("black-hole-node")

    assert_as_expected(result)
    assert result.figures["stall_s.node1"] >= 1
    assert result.figures["view.node3"] == "non-Primary"


@pytest.mark.long
def test_commits_follow_the_slowest_link(done):
    """So do those of clients on the fast nodes, and no node is excluded for it."""
    result = done("slow-link")

    assert_as_expected(result)
    assert result.figures["latency_ratio.node2"] > 1.5
    assert result.figures["failed"] == 0


@pytest.mark.long
@pytest.mark.parametrize("by", ["toi", "rsu"])
def test_a_table_is_changed_on_every_node_while_clients_write(done, by):
    """With total order isolation every node stalls for the time of the change."""
    result = done(f"schema-change-{by}")

    assert_as_expected(result)
    if by == "toi":
        assert min(result.figures[f"stall_s.{node}"] for node in ("node1", "node2", "node3")) > 0.5


@pytest.mark.long
def test_of_two_writers_of_a_row_one_is_told_to_try_again(done):
    """Error 1213 for the loser, counted by the cluster; no change is lost."""
    result = done("write-conflict")

    assert_as_expected(result)
    assert result.figures["error.1213"] > 0
    assert result.figures["conflicts"] > 0
    assert result.figures["miscounted"] == 0


def test_drills_leave_links_and_toxics_as_they_were(cluster, done):
    """After those above that have run: every link on, with the toxic that it had at first."""
    done("cut-link"), done("slow-link")

    for link in cluster.topology.links:
        running = cluster.link(link.name)
        assert running.enabled()
        assert {toxic.name for toxic in running.toxics()} == {"wan-85ms-down", "wan-85ms-up"}


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_drill_that_is_stopped_says_so_and_leaves_nothing(start_command, command):
    """SIGTERM in the middle of a fault: no container is left, and the record can be judged."""
    process = start_command("drill", "galera", "--drill", "cut-node")
    project = read_until(process, "starting ")[-1].split()[1].rstrip(":")
    read_until(process, "cut on node3: verified")

    process.send_signal(signal.SIGTERM)

    run = read_until(process, "record, ledgers and report: ")[-1].partition("report: ")[2].split()[0]
    assert process.wait(60) == 3
    assert [] == things_of(project)
    judged = command("report", run)
    assert judged.returncode == 3
    assert "interrupted by SIGTERM" in judged.stdout


# --- sabotage ---------------------------------------------------------------------------------------------------------


def brief(name, **changes):
    """Return a drill of hardly any duration."""
    import msgspec

    found = drill_set.load("galera", name).with_duration(0.2)
    return msgspec.structs.replace(found, name=f"sabotaged-{name}", before=0.2, after=0.1, **changes)


def test_a_cut_that_does_not_cut_is_unknown(done, monkeypatch):
    """The switch of the link does nothing: the connection across it tells."""
    monkeypatch.setattr(RunningLink, "cut", lambda *_: None)
    result = done("sabotaged-cut-link", brief("cut-link"))

    assert {one.verdict for one in result.judgements} == {Verdict.UNKNOWN}
    assert "connection still gets an answer" in result.judgements[0].reason
    assert result.exit_code == 3


def test_a_toxic_that_does_not_act_is_unknown(done, monkeypatch):
    """Nothing is put on the links: their round trips tell."""
    monkeypatch.setattr(RunningLink, "add", lambda *_: None)
    result = done("sabotaged-slow-link", brief("slow-link"))

    assert result.exit_code == 3
    assert "also has wan-200ms: expected" in result.judgements[0].reason


def test_a_kill_that_does_not_kill_is_unknown(done, cluster, monkeypatch):
    """The container lives on."""
    monkeypatch.setattr("replication_lab.faults.kill.END_SECONDS", 0.2)
    monkeypatch.setattr(Node, "kill", lambda *_: None)
    result = done("sabotaged-kill-node", brief("kill-node"))

    assert result.exit_code == 3
    assert "node1 to exit" in result.judgements[0].reason


def test_a_link_that_stays_cut_is_noticed(cluster):
    """The proof of the end asks the link, not the switch."""
    fault = Cut(cluster, ["node1-node2"])
    running = cluster.link("node1-node2")
    try:
        fault.inject()
        assert all(proof.ok for proof in fault.verify())
        assert not any(proof.ok for proof in fault.verify_recovered())
    finally:
        fault.recover()
        fault.close()
    assert running.enabled() and all(proof.ok for proof in fault.verify_recovered())


def test_a_link_that_is_cut_already_cannot_be_drilled(cluster):
    """There would be nothing to compare with, and its recovery would undo another command's work."""
    running = cluster.link("node1-node2")
    running.cut()
    try:
        with pytest.raises(LabError, match="does not answer"):
            Cut(cluster, ["node1-node2"])
    finally:
        running.enable()


# --- all at once: last, since a cluster that does not come back from it serves no other test --------------------------


@pytest.mark.long
def test_a_cluster_killed_as_a_whole_keeps_what_it_acknowledged(done):
    """One node leads, the others follow it, and the history goes on."""
    result = done("kill-all")
    ways = sorted(found.by for found in result.evidence.returns.values())

    assert_as_expected(result)
    assert ways.count("led") == 1 and len(ways) == 3 and "SST" not in ways
    assert result.figures["during.acknowledged"] == 0


@pytest.mark.long
def test_three_copies_in_memory_are_no_disk(done):
    """Without a flush at each commit a cluster that dies as a whole loses acknowledged rows; the ledger sees it."""
    result = done("kill-all-relaxed")

    assert result.doubts == []
    assert result.figures["lost"] > 0
    assert [result.figures[name] for name in ("phantoms", "diverged", "histories")] == [0, 0, 1]
    assert result.exit_code == 0
