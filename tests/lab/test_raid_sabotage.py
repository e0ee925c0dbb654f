"""Slow disks under replicas: their drill, and what goes wrong behind the lab's back while they are measured."""

import re
import secrets
from dataclasses import replace

import pytest
from replication_lab import experiments
from replication_lab.lab import up
from replication_lab.model.experiment.case import LabSpec
from replication_lab.model.experiment.experiment import Preset
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.lab.disk import Limits
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.runner import drill_set
from replication_lab.runner.drill import DrillRequest, run_drill
from replication_lab.runner.rounds import Run
from replication_lab.runner.session import EngineSession
from replication_lab.workloads import catch_up_setup
from replication_lab.workloads.catch_up import Race
from replication_lab.world import catalogue, signals
from replication_lab.world.disks import array
from replication_lab.world.disks.spindle import Spindle
from replication_lab.world.docker import images, project
from replication_lab.world.journal import Journal
from replication_lab.world.mysql.replica import APPLIER, Replica

# Only what the sabotage is about has to be measured: the races need no rate, so that a small backlog is enough.
SIZES = {
    "raid0_disks": {"mib": 1, "loops": 5, "seconds": 1},
    "raid_replica": {"rows": 2000, "backlog": 300, "warm": 1, "window": 1, "paced": 4, "rest": 1},
    "raid_appliers": {"rows": 2000, "durable_backlog": 600, "durable_window": 2},
}
ROWS_PER_SECOND = 250.0


def asked():
    """Return a request for one source, and replicas on one disk, RAID1 and RAID0."""
    return LabRequest(catalogue.topology("raid"), "mariadb", f"test-{secrets.token_hex(4)}", load=True, keep=False)


@pytest.fixture(scope="module")
def lab(docker):
    """Yield a lab that nothing has proved: beside other tests a disk may be slower than its limit."""
    request = asked()
    storage = up.placed_on(request.topology.storage, request.engine)
    images.ensure(up.image_names(request.engine, request.load, request.topology, storage))
    lab = project.start(replace(request, storage=storage))
    yield lab
    with signals.signals_held():
        lab.down()


@pytest.fixture
def doubts(lab, tmp_path, monkeypatch):
    """Return the doubts about one measurement of a case, as one text."""
    monkeypatch.setattr(catch_up_setup, "REDO_ROWS", 100)

    def measured(experiment, case):
        known = experiments.load(experiment)
        small = replace(known, presets={"sabotage": Preset("sabotage", 2, 2, SIZES[experiment], cases=(case,))})
        request = RunRequest(small, ["mariadb"], "sabotage", 7)
        run = Run(request, Journal("sabotage", runs=tmp_path), tell=lambda line: None)
        run.journal.write(run.opening())
        session = EngineSession(run, {LabSpec(lab.topology.name, "mariadb"): lab}, "mariadb")
        session.open()
        return "; ".join(session._measure(known.case(case), 1).reasons_to_doubt)

    return measured


# What disks do is measured, and compared with their limits.
@pytest.mark.alone
@pytest.mark.long
def test_the_drill_of_slow_disks_comes_out_as_its_file_says(docker, tmp_path):
    """On a lab that `lab up` has proved: every proof there, and every verdict the known one."""
    lab = up.up(asked())
    try:
        evidence = run_drill(lab, DrillRequest(drill_set.load("raid", "slow-disks"), 7), tmp_path / "ledger", print)
    finally:
        with signals.signals_held():
            lab.down()
    result = drill_set.judged_as_found(evidence, tmp_path / "ledger")

    assert [one.reason for one in result.judgements if one.verdict is not one.expected] == []
    assert result.doubts == []
    assert all(acted.proofs for acted in result.evidence.acted)


# In `make test` the claims of raid_replica are judged without a doubt, which shows the same.
@pytest.mark.long
@pytest.mark.alone
def test_disks_left_alone_are_not_doubted(doubts):
    """The counter-check."""
    assert doubts("raid0_disks", "plain-raid0") == ""


@pytest.mark.long
def test_a_limit_that_silently_did_not_act_is_seen(lab, doubts, monkeypatch):
    """The disk was told its limit, and is faster."""
    asleep = array.array(lab, "raid0").disk("disk2")
    asleep.limit(Limits())
    monkeypatch.setattr(array, "TRIES", 1)
    monkeypatch.setattr(
        Spindle,
        "limit",
        lambda disk, limits: (
            None if disk.container.name == asleep.container.name else disk.set(write_us=2500, read_us=2500)
        ),
    )
    told = doubts("raid0_disks", "plain-raid0")
    found = re.search(r"raid0-disk2 keeps its limits: (\d+) reads/s", told)

    assert found and int(found[1]) > 500, told


def test_a_limit_that_others_lift_for_a_moment_is_seen(lab, doubts, monkeypatch):
    """Of one disk of an array; its limit is the requested one at the end."""
    disk, read = array.array(lab, "raid0").disk("disk2").container, Race._watch
    monkeypatch.setattr(array, "keeps", lambda _measured, _limits: True)

    def lift_and_watch(race, lag, seconds):
        settings = disk.exec_run(["spindle", "settings"]).output.decode().split()
        (limit,) = [each for each in settings if each.startswith("write_us=")]
        for setting in ("write_us=0", limit):
            disk.exec_run(["spindle", "set", setting])
        read(race, lag, seconds)

    monkeypatch.setattr(Race, "_watch", lift_and_watch)

    told = doubts("raid_appliers", "one-durable")
    assert "another program asked raid0-disk2 for set write_us=0" in told


@pytest.mark.long
def test_an_applier_that_stopped_is_seen(lab, doubts, monkeypatch):
    """RAID1's replica goes on receiving, and applies nothing more."""
    watch = Race._watch
    # Beside other tests a disk may be slower than its limit, and nothing would be raced then.
    monkeypatch.setattr(array, "keeps", lambda _measured, _limits: True)

    def stop_and_watch(race, lag, seconds):
        Replica(lab.node("raid1").server()).stop_thread(APPLIER)
        watch(race, lag, seconds)

    monkeypatch.setattr(Race, "_watch", stop_and_watch)

    assert "raid1 applies: expected both threads run" in doubts("raid_appliers", "one-durable")


# The claims that `make test` judges have no steady load.
@pytest.mark.long
def test_a_load_that_does_not_reach_its_rate_is_seen(lab, doubts, monkeypatch):
    """The source has a hundredth of a CPU while it is loaded."""
    container = lab.node("source").container

    def squeeze_instead(*_arguments):
        container.update(cpu_period=100_000, cpu_quota=1_000)
        return ROWS_PER_SECOND

    # Beside other tests a disk may be slower than its limit, and nothing would be loaded then.
    monkeypatch.setattr(array, "keeps", lambda _measured, _limits: True)
    monkeypatch.setattr(Race, "_catch_up", squeeze_instead)
    try:
        assert "loaded at the requested rate" in doubts("raid_replica", "one")
    finally:
        container.update(cpu_period=100_000, cpu_quota=-1)
