"""Is the replication of servers that the lab did not start recognised from what they report?"""

from types import SimpleNamespace

import pymysql
import pytest
from replication_lab.attach import recognised
from replication_lab.model.core.errors import LabError
from replication_lab.world.mysql.replica import ReplicaStatus

NAMES = {"db": ["db", "db-primary", "172.20.0.2"], "db-replica": ["db-replica"], "leaf": ["leaf"], "other": ["other"]}

SILENT = {"source": (), "features": set(), "history": "", "semisync": False, "primaries": ("db",), "size": 0}


def channels_of(*sources):
    """Return the channels of a server: of one host without a name, of others by CHANNEL=HOST."""
    pairs = (source.rpartition("=")[::2] for source in sources)
    return {channel: ReplicaStatus(True, True, host, 3306, "", 0) for channel, host in pairs}


def source_at(_replica, state):
    """Return the server of a host by NAMES."""
    return next((name for name, known in NAMES.items() if state.host in known), None)


@pytest.fixture
def servers(monkeypatch):
    """Make servers from what each reports: the host of its source, its features, its cluster, its semi-sync."""

    def make(**reports):
        told = {
            name: SimpleNamespace(name=name, **{**SILENT, **each})
            for name, each in ((name.replace("_", "-"), each) for name, each in reports.items())
        }
        monkeypatch.setattr(
            recognised,
            "Replica",
            lambda one: SimpleNamespace(
                channels=lambda: channels_of(*([one.source] if isinstance(one.source, str) else one.source))
            ),
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
        return SimpleNamespace(history=one.history, size=one.size)

    return SimpleNamespace(status=status)


def _member(one):
    return SimpleNamespace(
        history=one.history,
        states={str(number): "ONLINE" for number in range(one.size or 1)},
        state="ONLINE" if one.history else "OFFLINE",
        primaries=one.primaries,
    )


def test_a_server_without_replication_is_alone(servers):
    """Whatever else runs in the project."""
    found = recognised.recognised(servers(db={}, other={}), source_at, "db")

    assert (found.replication, found.roles, found.follows) == ("none", {"db": "source"}, {})


def test_a_replica_is_recognised_by_any_name_of_its_source(servers):
    """The alias that it connects to is kept, and a chain has a relay; the source comes first."""
    found = recognised.recognised(
        servers(leaf={"source": "db-replica"}, db_replica={"source": "db-primary"}, db={}, other={}), source_at, "leaf"
    )

    assert found.replication == "async"
    assert list(found.roles.items()) == [("db", "source"), ("db-replica", "relay"), ("leaf", "replica")]
    assert found.follows == {"db-replica": "db", "leaf": "db-replica"}
    assert found.dialled == {"db-replica": ("db-primary", 3306), "leaf": ("db-replica", 3306)}


def test_semi_sync_is_recognised_at_the_source(servers):
    """By its status, not by its setting."""
    found = recognised.recognised(servers(db={"semisync": True}, db_replica={"source": "db"}), source_at, "db")

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
        source_at,
        "db",
    )

    assert (found.replication, dict(found.roles)) == (kind, {"db": "member", "db-replica": "member"})


def test_a_group_with_several_primaries_is_refused(servers):
    """The lab's proofs and drills need the one server that is written to."""
    of_group = {"features": {"group"}, "history": "A", "primaries": ("db", "db-replica")}

    with pytest.raises(LabError, match="has 2 primaries: db, db-replica") as refusal:
        recognised.recognised(servers(db=of_group, db_replica=of_group, leaf={}, other={}), source_at, "db")

    assert "group_replication_switch_to_single_primary_mode()" in refusal.value.next_step


def test_a_source_outside_the_project_is_named(servers):
    """The lab does not follow it, and the server counts as a source."""
    told = servers(db={"source": "elsewhere.example"})

    assert recognised.outside(told, source_at) == {"db": "elsewhere.example"}
    assert recognised.recognised(told, source_at, "db").replication == "none"


@pytest.mark.parametrize(
    "sources",
    [
        {"db": "other", "other": "db"},
        {"db": "leaf", "db_replica": "db", "leaf": "db-replica"},
        {"db": "other", "other": "db", "leaf": "db"},
    ],
    ids=["of two", "of three", "with a replica"],
)
def test_a_ring_is_refused_in_plain_words(servers, sources):
    """None of them is the source that a drill writes to, also if another server follows one of them."""
    told = servers(**{name: {"source": source} for name, source in sources.items()})

    with pytest.raises(LabError, match="replicate from each other in a ring") as refusal:
        recognised.recognised(told, source_at, "db")
    assert "leaf" not in refusal.value.found or len(sources) > len({"db", "other"})
    assert refusal.value.next_step


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        (("db", "second=other"), "2 channels (without a name from db, second from other)"),
        (("first=db", "second=elsewhere.example"), "2 channels (first from db, second from elsewhere.example)"),
        (("only=db",), "1 channel (only from db)"),
    ],
)
def test_channels_that_the_lab_does_not_know_are_refused(servers, sources, found):
    """Whichever server the link leads to; one of them may be outside the project."""
    told = servers(db={}, other={}, leaf={"source": sources})

    with pytest.raises(LabError, match="the lab knows only replicas with one source") as refusal:
        recognised.recognised(told, source_at, "db")
    assert f"leaf replicates by {found}" in refusal.value.found


def test_the_channels_of_other_servers_do_not_matter(servers):
    """A server that does not replicate with those of the links."""
    told = servers(db={}, other={}, db_replica={"source": "db"}, leaf={"source": ("a=other", "b=elsewhere.example")})

    assert set(recognised.recognised(told, source_at, "db").roles) == {"db", "db-replica"}


@pytest.mark.parametrize("kind", ["galera", "group"])
def test_a_cluster_with_a_member_that_the_lab_does_not_see_is_refused(servers, kind):
    """It would get what a drill writes."""
    of_cluster = {"features": {kind}, "history": "A", "size": 3}

    with pytest.raises(LabError, match="has 3 members, and the lab sees 2 of them"):
        recognised.recognised(servers(db=of_cluster, other=of_cluster), source_at, "db")


def test_a_member_that_the_account_may_not_ask_is_not_taken_for_a_server_alone(servers, monkeypatch):
    """Its tables of members need a privilege of their own."""

    def refuse(_):
        try:
            raise pymysql.err.OperationalError(1142, "SELECT command denied to user 'app'@'%'")
        except pymysql.err.OperationalError as denied:
            raise LabError("it failed", "rows", "") from denied

    told = servers(db={"features": {"group"}})
    monkeypatch.setattr(recognised, "member", refuse)
    with pytest.raises(LabError, match="db may be a member of a group, and the account may not ask it") as refusal:
        recognised.recognised(told, source_at, "db")
    assert "--dsn db=@FILE" in refusal.value.expected
