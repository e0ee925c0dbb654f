"""Does every topology have a kind of replication, and what does each kind promise before a lab is up?"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from replication_lab import experiments, replication
from replication_lab.lab import up
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.topology import parse_topology
from replication_lab.replication import pacemaker
from replication_lab.replication.galera import GaleraCluster
from replication_lab.replication.kind import KINDS, Nodes, register
from replication_lab.replication.role_changes import ChangesRoles
from replication_lab.replication.source_replica import Followers
from replication_lab.world import catalogue
from replication_lab.world.machines import vm


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


@pytest.mark.parametrize(
    ("topology", "good", "bad", "found", "expected"),
    [
        ("async", "replication: async", "replication: asink", "'asink'; did you mean async?", "async, drbd,"),
        ("drbd-ha", "manager: pacemaker", "manager: keepalived", "drbd under keepalived", "drbd under pacemaker"),
        ("async", "replication: async", "replication: galera", "roles replica, source, but", "roles member"),
        ("galera", "replication: galera", "replication: async", "roles member, but", "roles relay, replica, source"),
        ("drbd", "LAB_PEER", "LAB_OTHER", "roles replica, source, but replication is drbd", "roles peer"),
        ("galera", "LAB_MEMBERS", "LAB_OTHERS", "roles relay, but replication is galera", "roles member"),
    ],
)
def test_a_compose_file_that_fits_no_kind_is_refused(topology, good, bad, found, expected, refused):
    """With its name: an unknown replication or manager, or services that name each other as another kind's do."""
    text = (catalogue.ROOT / "compose" / f"{topology}.yaml").read_text()
    error = refused(replication.kind_of, parse_topology("broken", text.replace(good, bad)))

    assert "compose/broken.yaml" in error.found and found in error.found and expected in error.expected


def test_an_unknown_replication_is_refused_before_an_engine_is_looked_for(refused):
    """No engine has it, so none can be named."""
    unknown = replace(catalogue.topology("async"), replication="asink")

    assert "did you mean async?" in refused(up.up, LabRequest(unknown, "mariadb", "test")).found
    assert refused(catalogue.engine_for, unknown, "mariadb").next_step == "./lab list engines"


def test_two_kinds_of_the_same_replication_are_refused(refused):
    """Which of them counts would depend on their file names; the first one stays."""
    error = refused(register("galera"), Followers)

    assert "galera" in error.found and "source_replica" in error.found
    assert replication.kind_of(catalogue.topology("galera")) is GaleraCluster


def test_a_kind_says_which_images_it_needs():
    """Under a cluster manager also those of the manager and its load."""
    needed = {name: list(replication.kind_of(catalogue.topology(name)).images) for name in ("async", "galera", "drbd")}

    assert needed == {"async": [], "galera": ["sidecar"], "drbd": ["vm", "spindle"]}
    assert list(pacemaker.ManagedMachines.images) == ["vm", "spindle", "arbiter", "load"]


GALERA = {"galera", "galera-2", "galera-6", "galera-arbiter"}
FOLLOWING = {"async", "chain", "fanout", "raid", "semisync", "semisync-3"}


@pytest.mark.parametrize(
    ("ability", "able"),
    [
        ("machines", {"drbd", "drbd-ha"}),
        ("disks", {"drbd", "drbd-ha"}),
        ("set_options", {"drbd", "drbd-ha"}),
        ("compared", {"drbd", "drbd-ha"}),
        ("returned", {*GALERA, "group"}),
        ("counted", {*FOLLOWING, *GALERA}),
    ],
)
def test_a_kind_has_only_what_it_can_do(ability, able):
    """Only two machines have disks to compare, and only they take options of the replication."""
    kinds = {name: replication.kind_of(catalogue.topology(name)) for name in catalogue.topologies()}

    assert {name for name, kind in kinds.items() if getattr(kind, ability) is not getattr(Nodes, ability)} == able


def test_a_kind_says_what_it_is_before_a_lab_is_up():
    """For the settings of a question, the storage of a lab and the options of a drill."""
    kinds = {name: replication.kind_of(catalogue.topology(name)) for name in catalogue.topologies()}

    assert {name for name, kind in kinds.items() if kind.follows_a_source} == FOLLOWING
    assert {name for name, kind in kinds.items() if kind.in_machines} == {"drbd", "drbd-ha"}
    assert {name for name, kind in kinds.items() if kind.protocols and kind.options} == {"drbd", "drbd-ha"}


CHANGES = {"failover": "take_over", "rejoin": "take_back", "standby": "standby", "online": "online"}


@pytest.mark.parametrize("name", catalogue.topologies())
@pytest.mark.parametrize("command", CHANGES)
def test_every_kind_changes_roles_or_says_why_not(name, command, refused):
    """By the same five methods; what a kind does not do is refused in words, with what to type instead."""
    kind = replication.kind_of(catalogue.topology(name))
    method, node = CHANGES[command], catalogue.topology(name).source.name
    does = getattr(kind, method) is not getattr(ChangesRoles, method)

    assert does != (command in kind.refuses)
    if not does:
        lab: Any = SimpleNamespace(name=f"lab-{name}", topology=catalogue.topology(name))
        error = refused(getattr(kind(lab), method), node)
        assert f"`lab {command}`: " in error.found and error.next_step.startswith("./lab ")
        assert "{" not in error.next_step


def test_a_single_server_and_a_cluster_that_is_written_everywhere_have_no_other_node_to_promote():
    """All others have one; a group and a cluster manager choose it by themselves."""
    kinds = {name: replication.kind_of(catalogue.topology(name)) for name in catalogue.topologies()}

    assert {name for name, kind in kinds.items() if not kind.can_take_over()} == {"single", *GALERA}
    assert {name for name, kind in kinds.items() if kind.elects} == {"drbd-ha", "group"}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.__name__)
def test_every_kind_names_an_experiment_that_there_is(kind):
    """`lab up` says what to run next: where no experiment measures a kind, its topologies' drills."""
    if kind.experiment:
        assert experiments.load(kind.experiment).name == kind.experiment
    else:
        of_kind = [name for name in catalogue.topologies() if replication.kind_of(catalogue.topology(name)) is kind]
        assert of_kind and all(map(catalogue.drills, of_kind))


def test_a_topology_in_machines_takes_no_storage_and_counts_its_machines(refused, monkeypatch):
    """The kind says so, whatever the topology is called; the machines' memory is asked for."""
    asked = []
    monkeypatch.setattr(up.memory, "check", lambda labs: asked.extend(topology.name for topology, *_ in labs))
    monkeypatch.setattr(vm, "launcher", lambda: SimpleNamespace(name="uml"))

    assert [up.launcher_of(catalogue.topology(name)) for name in ("drbd", "async")] == ["uml", ""]
    assert asked == ["drbd"]
    assert "their own disk" in refused(up.storage_of, "drbd", ["raid0"], disk="unlimited", backend="auto").found
