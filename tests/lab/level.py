"""Labs of a source and its replicas, kept for several tests, and what a refused failover must not change in them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.probes.commit_latency import TABLE
from replication_lab.replication import failover
from replication_lab.world import catalogue, clock, signals
from replication_lab.world.docker import images
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql import replica as replicas
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import RECEIVER, Replica

# The replica that is promoted in each topology.
CANDIDATES = {"async": "replica", "semisync": "replica", "fanout": "near", "semisync-3": "replica1", "chain": "relay"}
# Seconds after which a refusal for a reason that is seen at once is late, on a busy machine too.
AT_ONCE = 5


def param(topology, engine, fast=False):
    fast = fast or (topology, engine) == ("async", "mariadb")
    return pytest.param((topology, engine), id=f"{topology}-{engine}", marks=[] if fast else pytest.mark.long)


OF_PAIRS = [param("async", engine) for engine in ("mariadb", "mysql-8.0", "mysql-5.6")]


class Labs:
    """One lab at a time of a topology and an engine: the same one until a test has changed its roles."""

    def __init__(self, new_lab):
        self._new_lab, self._labs = new_lab, {}

    @contextmanager
    def lab(self, topology: str, engine: str, monkeypatch) -> Iterator[Lab]:
        """Yield a lab whose replicas are level; it is removed if the block has failed over, and repaired otherwise."""
        monkeypatch.setattr(failover, "STILL_SECONDS", 1)
        monkeypatch.setattr(replicas, "STILL_SECONDS", 1)
        if (topology, engine) not in self._labs:
            self.down()
            images.ensure(up.image_names(engine))
            links = [link.name for link in catalogue.topology(topology).links]
            self._labs[topology, engine] = self._new_lab(topology, engine, toxics=dict.fromkeys(links, "lan"))
        yield self._labs[topology, engine]
        with signals.signals_held():
            try:
                repair(self._labs[topology, engine])
            except (LabError, AssertionError):
                self.down()

    def down(self) -> None:
        with signals.signals_held():
            for each in self._labs.values():
                each.down()
            self._labs.clear()


@pytest.fixture(scope="module")
def labs(new_lab):
    """Give labs that are kept."""
    found = Labs(new_lab)
    yield found
    found.down()


@pytest.fixture
def lab(labs, request, monkeypatch):
    """Yield a lab whose replicas are level."""
    with labs.lab(*request.param, monkeypatch) as found:
        yield found


def repair(lab):
    assert set(failover.sources(lab)) == set(lab.topology.sources)
    assert not any(lab.link(link.name).toxics() for link in lab.topology.links)
    if lab.node("source").state()[0] == "exited":
        lab.node("source").start_again()
    clock.wait_until(lab.node("source").answers, "the source", 30)
    assert lab.node("source").server().settings("read_only") == {"read_only": "OFF"}
    for name in lab.topology.sources:
        Replica(lab.node(name).server()).start()
        level(lab, name)


def level(lab, name):
    Replica(lab.node(name).server()).wait_for(BinaryLog(lab.node("source").server()).position())


def candidate(lab):
    return CANDIDATES[lab.topology.name]


def count(lab, node):
    return lab.node(node).server().value(f"SELECT COUNT(*) FROM {TABLE}")


def write(lab, node, rows):
    lab.node(node).server().execute(*[f"INSERT INTO {TABLE} (at) VALUES (0)"] * rows)


def replicas_of_source(lab):
    return [name for name, source in lab.topology.sources.items() if source == "source"]


def kill_source(lab):
    """Kill the source once every replica has received what it has, and wait until their receivers have noticed."""
    end = BinaryLog(lab.node("source").server()).end()
    for name in replicas_of_source(lab):
        if not Replica(lab.node(name).server()).runs(RECEIVER):
            continue
        clock.wait_until(lambda name=name: progress(lab, name).received == end, f"{name} to have received all")
    for name in set(replicas_of_source(lab)) - {candidate(lab)}:
        replica = Replica(lab.node(name).server())
        clock.wait_until(lambda of=replica: not (left := of.backlog()) or not left.moves, f"{name} to have applied all")
    lab.node("source").kill()
    clock.wait_until(lambda: lab.node("source").state()[0] == "exited", "the source's end")
    for name in replicas_of_source(lab):
        clock.wait_until(lambda name=name: not status(lab, name).connected, f"{name} to have lost the source")


def status(lab, name):
    return Replica(lab.node(name).server()).status()


def progress(lab, name):
    return Replica(lab.node(name).server()).progress()


def standing(lab):
    """Return all that a refusal must not change: threads, positions, relay logs, GTIDs, fences."""
    found = {}
    for name in lab.topology.sources:
        server = lab.node(name).server()
        column, row = server.dialect.columns, next(iter(server.rows(server.dialect.replica_status)), {})
        kept = {
            key: each for key, each in row.items() if "Pos" in key or "File" in key or "Space" in key or "Set" in key
        }
        threads = row.get(column.io) == "No", row.get(column.sql)
        logs = lab.node(name).run("sh", "-c", "ls -l /var/lib/mysql/*relay-bin* || true")
        found[name] = kept, threads, logs, BinaryLog(server).gtids(), server.settings("read_only")
    fences = [lab.node("source").text_of(path) for path in ("/etc/mysql/conf.d/fenced.cnf", "/etc/my.cnf.d/fenced.cnf")]
    return found, fences


def settle(lab):
    """Wait until positions stand still: MySQL's parallel applier writes its own down some time after a commit."""

    def has_settled(name):
        now = progress(lab, name)
        return (
            not status(lab, name).applying or Replica(lab.node(name).server()).backlog() or now.applied == now.received
        )

    for name in lab.topology.sources:
        clock.wait_until(lambda name=name: has_settled(name), f"{name} to have written down its position")


def refused(lab, said, seconds=AT_ONCE, **options):
    """Return the refusal of a failover, which changes nothing."""
    settle(lab)
    before, began = standing(lab), time.monotonic()
    with pytest.raises(LabError, match=said) as refusal:
        failover.failover(lab, candidate(lab), **options)
    assert time.monotonic() - began < seconds
    changed = changes(before, standing(lab))
    assert not changed, changed
    return refusal.value


def changes(before, after):
    """Return what differs, a line each, before and after."""
    lines = [
        [f"{name} {number}: {part}" for name, parts in found.items() for number, part in enumerate(parts)]
        for found in (before[0] | {"fences": before[1]}, after[0] | {"fences": after[1]})
    ]
    return [pair for pair in zip(*lines, strict=True) if pair[0] != pair[1]]
