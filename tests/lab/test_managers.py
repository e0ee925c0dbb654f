"""Failover managers on real servers: they let a replica take over, and one that does nothing is never green."""

import os
import signal

import msgspec
import pytest
from replication_lab.lab import managers
from replication_lab.model.core.verdict import Verdict
from replication_lab.runner import drill_set
from replication_lab.runner.drill import DrillRequest
from replication_lab.world import clock
from replication_lab.world.docker.manager import RunningManager

from tests.conftest import ignoring_noise
from tests.lab.test_drills import once_written, surprises

KEEPALIVED = {"interval": 1, "timeout": 1, "fall": 2, "rise": 2, "drain": 10}


@pytest.fixture
def drilled(docker, tmp_path):
    """Do a drill under a manager on a lab of its own; return its result."""

    def run(topology, name, manager, settings, engine="mariadb", endpoint="", seconds=None, meanwhile=None):
        asked = drill_set.load(topology, name).with_duration(seconds)
        if endpoint:
            (asked,) = drill_set.at_endpoint([asked], endpoint, {})
        (drill,) = drill_set.under_manager([asked], manager, settings)

        def tell(line):
            print(line)
            # The drill begins on the lab that has the manager.
            if meanwhile and line.startswith(f"{name}: "):
                lab = own.lab()
                once_written(lab, lambda _: meanwhile(lab))

        with drill_set.Labs(drill_set.lab_request(topology, engine, [drill]), tell) as own, ignoring_noise():
            evidence = own.do(DrillRequest(drill, 7), tmp_path / "ledger")
        # A drill that did not begin has no ledger.
        return drill_set.judged_as_found(evidence, tmp_path / "ledger")

    return run


def test_keepalived_moves_its_address_to_the_replica_that_it_promotes(drilled):
    """Clients find it by the same address, and nothing is left to chance: each failover has its time and its node."""
    result = drilled("semisync", "lose-source", "keepalived", KEEPALIVED, endpoint="address")
    (acted,) = result.evidence.acted

    assert result.doubts == [] and surprises(result) == {}
    assert [node for _, node in acted.promoted] == ["replica"] and acted.left
    assert (result.figures["not_failed_over"], result.figures["false_failovers"], result.figures["lost"]) == (0, 0, 0)
    assert result.figures["acknowledged.replica"] > 0


@pytest.mark.long
@pytest.mark.parametrize("engine", ["mysql-8.0", "mysql-5.6"])
def test_keepalived_promotes_a_server_of_each_family(drilled, engine):
    """Its statements have other names there."""
    result = drilled("async", "lose-source", "keepalived", KEEPALIVED, engine)

    assert result.doubts == [] and result.figures["not_failed_over"] == 0


@pytest.mark.long
def test_a_person_lets_the_replica_take_over(drilled):
    """After the time that was set, and not before."""
    result = drilled("semisync", "lose-source", "none", {"after": 3})

    assert result.doubts == [] and surprises(result) == {}
    assert result.figures["promoted_s"] >= 2 and result.figures["failovers"] == 1


@pytest.mark.long
def test_a_manager_that_does_nothing_is_never_green(drilled, monkeypatch):
    """It sees the nodes, and is quiet when the source is killed."""
    monkeypatch.setattr(RunningManager, "manage", _manage_and_be_quiet(RunningManager.manage))
    soon = msgspec.structs.replace(managers.catalogue.manager("keepalived"), within=5)
    monkeypatch.setattr(managers.catalogue, "manager", lambda _name: soon)
    result = drilled("semisync", "lose-source", "keepalived", KEEPALIVED)

    assert result.figures["not_failed_over"] == 1 and result.exit_code == 1


def _manage_and_be_quiet(manage):
    """Return a method that lets the manager begin, and then only observe."""

    def managing(self):
        manage(self)
        managers.clock.wait_until(lambda: len(self.view()) > 1, "the manager's view", 60, every=0.3)
        self.quiet()

    return managing


@pytest.mark.long
def test_a_server_that_others_freeze_for_a_moment_leaves_open_what_the_manager_did(drilled):
    """Its container runs, so it may take writes; other witnesses allow that a server is silent for 3 s."""

    def freeze(lab):
        (server,) = (row[1] for row in lab.node("replica").container.top()["Processes"] if "mariadbd" in row[-1])
        os.kill(int(server), signal.SIGSTOP)
        clock.pause(2.2)
        os.kill(int(server), signal.SIGCONT)

    result = drilled("semisync", "lose-source", "none", {"after": 3}, meanwhile=freeze)
    (doubt,) = result.doubts

    assert "two_writable_s" in doubt and "replica may have taken writes from" in doubt
    assert not {"two_writable_s", "failovers", "not_failed_over"} & set(result.figures)
    unknown = {one.figure for one in result.judgements if one.verdict is Verdict.UNKNOWN}
    assert {"not_failed_over", "false_failovers"} <= unknown and result.figures["lost"] == 0


@pytest.mark.long
def test_a_manager_that_does_not_see_the_nodes_is_unknown(drilled, monkeypatch):
    """Nothing that it then does, or does not do, is about these nodes."""
    monkeypatch.setattr(RunningManager, "view", lambda _self: {})
    monkeypatch.setattr(managers, "MANAGES_SECONDS", 2)
    monkeypatch.setattr(managers, "prove", lambda _lab: [])
    result = drilled("semisync", "lose-source", "keepalived", KEEPALIVED)

    assert {one.verdict for one in result.judgements} == {Verdict.UNKNOWN}


@pytest.mark.long
def test_a_short_freeze_moves_nothing_and_a_long_one_does(drilled):
    """A failover in a freeze that ends is one that was not needed."""
    short = drilled("semisync", "manager-freeze", "keepalived", {**KEEPALIVED, "timeout": 3, "fall": 3}, seconds=3)
    long = drilled("semisync", "manager-freeze", "keepalived", KEEPALIVED, seconds=10)

    assert short.figures["false_failovers"] == 0 and long.figures["false_failovers"] >= 1


@pytest.mark.long
def test_two_hosts_that_do_not_hear_each_other_both_take_writes(drilled):
    """The price of keepalived: each believes that the other one is gone."""
    result = drilled("semisync", "manager-cut-off", "keepalived", KEEPALIVED)

    assert result.doubts == [] and result.figures["two_writable_s"] > 1 and result.figures["false_failovers"] >= 1
