"""Is the replication of servers that the lab did not start recognised from what they report?"""

from types import SimpleNamespace

import pytest
from replication_lab.attach import recognised
from replication_lab.model.core.errors import LabError
from replication_lab.world.mysql.replica import ReplicaStatus

NAMES = {"db": ["db", "db-primary", "172.20.0.2"], "db-replica": ["db-replica"], "leaf": ["leaf"], "other": ["other"]}

SILENT = {"source": "", "features": set(), "history": "", "semisync": False, "primaries": ("db",)}


def replica_of(host):
    return ReplicaStatus(True, True, host, 3306, "", 0)


@pytest.fixture
def servers(monkeypatch):
    """Make servers from what each reports: the host of its source, its features, its cluster, its semi-sync."""

    def make(**reports):
        told = {
            name: SimpleNamespace(**{**SILENT, **each})
            for name, each in ((name.replace("_", "-"), each) for name, each in reports.items())
        }
        monkeypatch.setattr(
            recognised,
            "Replica",
            lambda one: SimpleNamespace(status=lambda: replica_of(one.source) if one.source else None),
        )
        monkeypatch.setattr(recognised, "features_of", lambda one: one.features)
        monkeypatch.setattr(recognised, "GaleraNode", _galera)
        monkeypatch.setattr(recognised, "member", _member)
        monkeypatch.setattr(
            recognised, "SemiSync", lambda one: SimpleNamespace(status=lambda: SimpleNamespace(active=one.semisync))
        )
        return told

    return make


def _galera(one):
    def status():
        if not one.history:
            raise LabError("not in a Galera cluster")
        return SimpleNamespace(history=one.history)

    return SimpleNamespace(status=status)


def _member(one):
    return SimpleNamespace(
        history=one.history,
        states={"db": "ONLINE"},
        state="ONLINE" if one.history else "OFFLINE",
        primaries=one.primaries,
    )


def test_a_server_without_replication_is_alone(servers):
    """Whatever else runs in the project."""
    found = recognised.recognised(servers(db={}, other={}), NAMES, "db")

    assert (found.replication, found.roles, found.follows) == ("none", {"db": "source"}, {})


def test_a_replica_is_recognised_by_any_name_of_its_source(servers):
    """The alias that it connects to is kept, and a chain has a relay; the source comes first."""
    found = recognised.recognised(
        servers(leaf={"source": "db-replica"}, db_replica={"source": "db-primary"}, db={}, other={}), NAMES, "leaf"
    )

    assert found.replication == "async"
    assert list(found.roles.items()) == [("db", "source"), ("db-replica", "relay"), ("leaf", "replica")]
    assert found.follows == {"db-replica": "db", "leaf": "db-replica"}
    assert found.dialled == {"db-replica": "db-primary", "leaf": "db-replica"}


def test_semi_sync_is_recognised_at_the_source(servers):
    """By its status, not by its setting."""
    found = recognised.recognised(servers(db={"semisync": True}, db_replica={"source": "db"}), NAMES, "db")

    assert found.replication == "semisync"


@pytest.mark.parametrize("kind", ["galera", "group"])
def test_a_cluster_is_its_members_with_one_history(servers, kind):
    """A server of another cluster is none of them, nor one that has the program only."""
    found = recognised.recognised(
        servers(
            db={"features": {kind}, "history": "A"},
            db_replica={"features": {kind}, "history": "A"},
            leaf={"features": {kind}, "history": "B"},
            other={"features": {kind}},
        ),
        NAMES,
        "db",
    )

    assert (found.replication, dict(found.roles)) == (kind, {"db": "member", "db-replica": "member"})


def test_a_group_with_several_primaries_is_refused(servers):
    """The lab's proofs and drills need the one server that is written to."""
    of_group = {"features": {"group"}, "history": "A", "primaries": ("db", "db-replica")}

    with pytest.raises(LabError, match="has 2 primaries: db, db-replica") as refusal:
        recognised.recognised(servers(db=of_group, db_replica=of_group, leaf={}, other={}), NAMES, "db")

    assert "group_replication_switch_to_single_primary_mode()" in refusal.value.next_step


def test_a_source_outside_the_project_is_named(servers):
    """The lab does not follow it, and the server counts as a source."""
    told = servers(db={"source": "elsewhere.example"})

    assert recognised.outside(told, NAMES) == {"db": "elsewhere.example"}
    assert recognised.recognised(told, NAMES, "db").replication == "none"


def test_a_ring_of_two_sources_ends(servers):
    """Each is the other's replica; none is lost from sight."""
    found = recognised.recognised(servers(db={"source": "other"}, other={"source": "db"}), NAMES, "db")

    assert dict(found.roles) == {"db": "relay", "other": "relay"}
