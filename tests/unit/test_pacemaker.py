"""Pacemaker: each cluster's votes, what the agent's client says, and a drill at whose end no node takes writes."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab import companion
from replication_lab.model.lab.manager import MANAGER
from replication_lab.runner import drill_set
from replication_lab.runner.succession import ByManager, StepChange, TakesWrites
from replication_lab.world import catalogue, clock, compose_template

from tests.unit.test_managers import _Loader

PACEMAKER = catalogue.manager("pacemaker")
CLIENT = catalogue.IMAGES / "pacemaker" / "client"


def services(topology):
    asked = companion.asked(MANAGER, "pacemaker", PACEMAKER.settings, {})
    text = compose_template.companion(catalogue.MANAGERS, asked, "lab-x", Path("x.yaml"), catalogue.topology(topology))
    return yaml.load(text, Loader=_Loader)["services"]


@pytest.mark.parametrize(("topology", "members"), [("semisync", 3), ("semisync-3", 3)])
def test_a_cluster_has_an_odd_number_of_votes(topology, members):
    """Two machines that do not hear each other would both be half; the one that only votes is none of the manager's."""
    found = services(topology)
    voters = [name for name in found if name == "voter"]

    assert len(found["pacemaker-source"]["environment"]["LAB_MEMBERS"].split()) == members
    assert voters == (["voter"] if topology == "semisync" else [])
    assert all("replication-lab.manager" not in found[name]["labels"] for name in voters)


def test_pacemaker_and_its_server_share_the_machine_by_whose_name_replicas_follow_it():
    """The agent tells replicas the name of the machine."""
    found = services("semisync-3")

    for node in ("source", "replica1", "replica2"):
        assert found[f"{node}-host"]["hostname"] == node
        assert {found[name]["network_mode"] for name in (node, f"pacemaker-{node}")} == {f"service:{node}-host"}


@pytest.fixture
def asked(tmp_path):
    """Return what the agent's client prints, and what it was told, for a client that prints its argument."""
    client = tmp_path / "mariadb"
    client.write_text('#!/bin/bash\nprintf "%s\\n" "${@: -1}"\n')
    client.chmod(0o755)

    def of(statement):
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        run = subprocess.run([CLIENT, "-e", statement], env=environment, check=True, capture_output=True, text=True)
        return run.stdout.rstrip("\n")

    return of


@pytest.mark.whole
def test_a_source_that_has_ended_refuses_its_replicas(asked):
    """Toxiproxy ends their connections instead, which the agent would take for broken replication."""
    assert asked("   Last_IO_Errno: 2013") == "   Last_IO_Errno: 2003"
    assert asked("   Last_IO_Errno: 1236") == "   Last_IO_Errno: 1236"
    assert asked("   Last_Errno: 2013") == "   Last_Errno: 2013"


@pytest.mark.whole
def test_a_replica_is_told_that_links_have_no_tls(asked):
    """Otherwise it would ask for a certificate that it can verify."""
    told = asked("CHANGE MASTER TO MASTER_HOST='a', MASTER_USE_GTID=current_pos")

    assert told.endswith("MASTER_USE_GTID=current_pos, MASTER_SSL=0, MASTER_SSL_VERIFY_SERVER_CERT=0")


@pytest.mark.parametrize("read_only", ["ON", "OFF", ""])
def test_a_manager_that_leaves_no_node_that_takes_writes_ends_the_drill(monkeypatch, refused, read_only):
    """It only observes by then, so nothing would change; a source that takes writes, or is still silent, goes on."""
    monkeypatch.setattr(clock, "wait_until", lambda *_, **__: None)
    monkeypatch.setattr(ByManager, "refuse_unmanaged", lambda _self: None)

    def settings(name):
        if not read_only:
            raise LabError("no answer")
        return {name: read_only}

    source = SimpleNamespace(server=lambda: SimpleNamespace(settings=settings))
    lab = SimpleNamespace(name="x", manager=SimpleNamespace(quiet=lambda: None), node=lambda _name: source)
    (drill,) = drill_set.under_manager([drill_set.load("semisync", "manager-freeze")], "pacemaker", {})
    by = ByManager(
        lab, SimpleNamespace(written_at=lambda: "source"), drill, print, lambda: 0.0, TakesWrites(SimpleNamespace())
    )

    if read_only == "ON":
        assert "source refuses writes" in refused(by.settle, drill.steps[0], StepChange()).found
    else:
        assert by.settle(drill.steps[0], StepChange()) == StepChange()
