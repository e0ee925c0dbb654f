"""What goes wrong behind the lab's back while disks and replicas on them are measured is doubted, with its figures."""

import secrets

import pytest
from replication_lab import experiments
from replication_lab.lab import up
from replication_lab.model.experiment import Preset
from replication_lab.model.lab_request import LabRequest
from replication_lab.model.lab_spec import LabSpec
from replication_lab.runner.rounds import Run
from replication_lab.runner.session import Session
from replication_lab.workloads.catch_up import Race
from replication_lab.world import catalogue
from replication_lab.world.disks import array, overlay
from replication_lab.world.disks.spindle import Spindle
from replication_lab.world.docker import images, project, signals
from replication_lab.world.journal import Journal
from replication_lab.world.mysql.replica import Replica

# What a disk or a CPU does is measured, and compared with its limit.
pytestmark = pytest.mark.alone

SIZES = {
    "raid0_disks": {"mib": 1, "loops": 5, "seconds": 1},
    "raid_replica": {"rows": 8000, "backlog": 9_000, "warm": 4500, "window": 8, "paced": 5, "rest": 2},
    "raid_appliers": {"rows": 8000, "durable_backlog": 2500, "durable_window": 4},
}


@pytest.fixture(scope="module")
def lab(docker):
    """Yield one source, replicas on one disk, RAID1 and RAID0, as the experiments get it."""
    topology = catalogue.topology("raid")
    images.ensure(up.image_names("mariadb", load=True, topology=topology, storage=topology.storage))
    storage = overlay.with_backend(topology.storage)
    lab = project.start(LabRequest(topology, "mariadb", f"test-{secrets.token_hex(4)}", load=True, storage=storage))
    yield lab
    with signals.signals_held():
        lab.down()


@pytest.fixture
def doubts(lab, tmp_path):
    """Return the doubts about one measurement of a case, as one text."""

    def measured(experiment, case):
        known = experiments.load(experiment)
        run = Run(
            known,
            Preset("sabotage", 2, 2, SIZES[experiment], cases=(case,)),
            ["mariadb"],
            7,
            Journal("sabotage", runs=tmp_path),
            tell=lambda line: None,
        )
        run.journal.write(run._opening())
        session = Session(run, {LabSpec(lab.topology.name, "mariadb"): lab}, "mariadb")
        session.open()
        return "; ".join(session._measure(known.case(case), 1).reasons_to_doubt)

    return measured


def test_disks_left_alone_are_not_doubted(doubts):
    """The counter-check."""
    assert doubts("raid0_disks", "plain-raid0") == ""


def test_a_limit_that_silently_did_not_act_is_seen(lab, doubts, monkeypatch):
    """The disk says what it was told, and is faster."""
    asleep = array.array(lab, "raid0").disk("disk2").container.name
    monkeypatch.setattr(array, "TRIES", 1)
    monkeypatch.setattr(
        Spindle,
        "limit",
        lambda disk, limits: None if disk.container.name == asleep else disk.set(write_us=2500, read_us=2500),
    )

    assert "raid0-disk2 keeps its limits" in doubts("raid0_disks", "plain-raid0")


def test_an_applier_that_stopped_is_seen(lab, doubts, monkeypatch):
    """RAID1's replica goes on receiving, and applies nothing more."""
    watch = Race._watch

    def stop_and_watch(race, lag, seconds):
        Replica(lab.node("raid1").server()).stop_applier()
        watch(race, lag, seconds)

    monkeypatch.setattr(Race, "_watch", stop_and_watch)

    assert "raid1 applies: expected both threads run" in doubts("raid_appliers", "one-durable")


def test_a_load_that_does_not_reach_its_rate_is_seen(lab, doubts, monkeypatch):
    """The source has a hundredth of a CPU while it is loaded."""
    container = lab.node("source").container
    catch_up = Race._catch_up

    def squeeze_afterwards(race, *arguments):
        found = catch_up(race, *arguments)
        container.update(cpu_period=100_000, cpu_quota=1_000)
        return found

    monkeypatch.setattr(Race, "_catch_up", squeeze_afterwards)
    try:
        assert "loaded at the requested rate" in doubts("raid_replica", "one")
    finally:
        container.update(cpu_period=100_000, cpu_quota=-1)
