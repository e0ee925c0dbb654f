"""Are labs that the host's memory cannot hold at the same time refused before one of them starts?"""

import pytest
from replication_lab import experiments
from replication_lab.lab import memory
from replication_lab.model.lab.storage import Storage
from replication_lab.model.question.question import Question
from replication_lab.runner import world as run_world
from replication_lab.world import catalogue, host


@pytest.fixture
def with_mib(monkeypatch):
    """Return what makes this much memory available."""
    monkeypatch.delenv("LAB_MEMORY", raising=False)
    return lambda mib: monkeypatch.setattr(host, "available_mib", lambda *_: mib)


def test_every_server_of_every_lab_counts(with_mib, refused):
    """Two labs of two servers each."""
    labs = [(catalogue.topology("semisync"), "", {})] * 2
    with_mib(400)
    memory.check(labs)
    with_mib(399)
    error = refused(memory.check, labs)

    assert error.found == "399 MiB of memory are available"
    assert error.expected == "at least 400 MiB, for 4 servers in labs that are all up at the same time"


def test_virtual_machines_count_with_their_memory(with_mib, refused):
    """Those of a topology, and a node whose disks are joined in one."""
    with_mib(2000)
    in_machine = {"replica": Storage(level="raid1", backend="vm")}
    labs = [(catalogue.topology("drbd"), "", {}), (catalogue.topology("async"), "", in_machine)]

    assert "2380 MiB, for 1 server and 3 virtual machines in labs" in refused(memory.check, labs).expected


def test_a_run_refuses_labs_that_do_not_fit(with_mib, monkeypatch, refused):
    """Both engines of a question run at the same time; the engines of an experiment run one after another."""
    for module, name in ((run_world.docker_engine, "ensure"), (run_world.labs, "tidy"), (run_world.images, "ensure")):
        monkeypatch.setattr(module, name, lambda *_: None)
    asked = experiments.asked(Question(topologies=["semisync"], vary={"engine": ["mariadb", "mysql-8.0"]}))
    with_mib(300)
    labs = [asked.labs(asked.preset("ask"), engine) for engine in asked.engines]

    run_world.World().make_ready(labs, print, "run semisync_wan")
    together = [[lab for part in labs for lab in part]]
    assert "4 servers in labs" in refused(run_world.World().make_ready, together, print, "ask semisync").expected
