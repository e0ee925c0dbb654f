"""Does every topology have a kind of replication, and what does each kind promise before a lab is up?"""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from replication_lab import experiments, replication
from replication_lab.lab import up
from replication_lab.replication import abilities, pacemaker
from replication_lab.replication.galera import Cluster
from replication_lab.replication.kind import KINDS, register
from replication_lab.replication.source_replica import Followers
from replication_lab.world import catalogue, vm


@pytest.mark.parametrize("topology", catalogue.topologies())
def test_every_topology_has_a_kind(topology):
    """All of its nodes."""
    lab = SimpleNamespace(topology=catalogue.topology(topology))

    assert replication.of(lab).names == [node.name for node in catalogue.topology(topology).nodes]


def test_a_kind_that_no_module_registers_is_refused(refused):
    """The error says which there are."""
    unmanaged = replace(catalogue.topology("async"), manager="pacemaker")

    error = refused(replication.kind_of, unmanaged)

    assert "async under pacemaker" in error.found
    assert "drbd under pacemaker" in error.expected


def test_two_kinds_of_the_same_replication_are_refused(refused):
    """Which of them counts would depend on their file names; the first one stays."""
    error = refused(register("galera"), Followers)

    assert "galera" in error.found and "source_replica" in error.found
    assert replication.kind_of(catalogue.topology("galera")) is Cluster


def test_a_kind_says_which_images_it_needs():
    """Under a cluster manager also those of the manager and its load."""
    needed = {name: list(replication.kind_of(catalogue.topology(name)).images) for name in ("async", "galera", "drbd")}

    assert needed == {"async": [], "galera": ["sidecar"], "drbd": ["vm", "spindle"]}
    assert list(pacemaker.ManagedMachines.images) == ["vm", "spindle", "arbiter", "load"]


@pytest.mark.parametrize(
    ("ability", "able"),
    [
        (abilities.RunsMachines, {"drbd", "drbd-ha"}),
        (abilities.Promotes, {"async", "chain", "fanout", "raid", "semisync", "semisync-3", "drbd", "drbd-ha"}),
        (abilities.ChoosesServer, {"drbd-ha", "group"}),
        (abilities.TakesOptions, {"drbd", "drbd-ha"}),
        (abilities.ComparesDisks, {"drbd", "drbd-ha"}),
        (abilities.ReportsReturns, {"galera", "galera-2", "group"}),
        (
            abilities.Counts,
            {"async", "chain", "fanout", "raid", "semisync", "semisync-3", "galera", "galera-2"},
        ),
    ],
)
def test_a_kind_has_only_what_it_can_do(ability, able):
    """A single server and a cluster promote nothing, and only two machines have disks to compare."""
    kinds = {name: replication.kind_of(catalogue.topology(name)) for name in catalogue.topologies()}

    assert {name for name, kind in kinds.items() if issubclass(kind, ability)} == able


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.__name__)
def test_every_kind_names_an_experiment_that_there_is(kind):
    """`lab up` tells what to run next."""
    assert experiments.load(kind.experiment).name == kind.experiment


def test_a_topology_in_machines_takes_no_storage_and_counts_its_machines(refused, monkeypatch):
    """The kind says so, whatever the topology is called; each machine's memory is asked for."""
    asked = []
    monkeypatch.setattr(vm, "check_memory", asked.append)
    monkeypatch.setattr(vm, "launcher", lambda: SimpleNamespace(name="uml"))

    assert [up.launcher_of(catalogue.topology(name)) for name in ("drbd", "async")] == ["uml", ""]
    assert asked == [2]
    assert "their own disk" in refused(up.storage_of, "drbd", ["raid0"], disk="unlimited", backend="auto").found
