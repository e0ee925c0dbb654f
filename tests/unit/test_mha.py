"""Is MHA refused where it does not fit, and do replicas cross the lab's links by the names that it knows?"""

from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from replication_lab.lab import managers
from replication_lab.model.lab import companion
from replication_lab.model.lab.manager import MANAGER
from replication_lab.replication import failover
from replication_lab.world import catalogue, compose_template

from tests.fakes.standing import Standing
from tests.unit.test_managers import _Loader

MHA = catalogue.manager("mha")


@pytest.mark.parametrize("engine", ["mariadb", "mariadb-10.2", "mysql", "mysql-5.6"])
def test_an_engine_whose_replication_mha_does_not_know_is_refused(refused, engine):
    """MariaDB has other GTIDs, and MySQL 8.4 no longer has the statements."""
    assert engine in refused(managers.manager_of, catalogue.topology("async"), engine, "mha", {}).found


def test_a_relay_is_refused(refused):
    """MHA would have to repoint the replicas of a relay as well."""
    assert "relay" in refused(managers.manager_of, catalogue.topology("chain"), "mysql-8.0", "mha", {}).found


@pytest.mark.parametrize("topology", ["async", "semisync-3", "fanout"])
def test_the_machine_of_each_node_leads_every_other_name_to_its_link(topology):
    """Also those of links that only a failover needs."""
    found = catalogue.topology(topology)
    asked = companion.asked(MANAGER, "mha", MHA.settings, {})
    text = compose_template.companion(catalogue.MANAGERS, asked, "lab-x", Path("x.yaml"), found)
    services = yaml.load(text, Loader=_Loader)["services"]

    for source, target in permutations([node.name for node in found.nodes], 2):
        links = services[f"{target}-host"]["environment"]["LAB_LINKS"].split()
        assert f"{source}={found.port_between(source, target)}" in links
    ports = {found.port_between(*pair) for pair in permutations([node.name for node in found.nodes], 2)}
    assert len(ports) == len(found.nodes) * (len(found.nodes) - 1)


def test_before_mha_acts_there_is_a_link_between_each_two_nodes(monkeypatch):
    """MHA's own CHANGE MASTER has to land on one."""
    lab, acted = Standing("fanout"), []
    lab.manager = SimpleNamespace(kind=MHA, manage=lambda: acted.append(sorted(lab.toxiproxy.proxies())))
    monkeypatch.setattr(managers, "prove_view", lambda *_: None)

    managers.prove(lab)

    assert acted == [["far-near", "far-source", "near-far", "near-source", "source-far", "source-near"]]


def test_a_node_that_is_taken_back_follows_by_the_name_that_mha_knows():
    """MHA refuses to watch a replica whose source it does not know."""
    lab = Standing("fanout")

    assert failover.dialled(lab, "near", "source") == ("toxiproxy", 22200)
    lab.manager = SimpleNamespace(kind=MHA)
    assert failover.dialled(lab, "near", "source") == ("near", 3306)
    assert "near-source" in lab.toxiproxy.proxies()


def test_the_status_of_a_lab_tells_why_mha_watches_nothing():
    """It ends after a failover, and a person has to let it watch again."""
    ended = "MHA has ended after a failover"
    lab = SimpleNamespace(manager=SimpleNamespace(name="mha", said=lambda: ended))

    assert managers.told(lab) == f"manager mha: {ended}"
    lab.manager.said = lambda: "source a\nreplica b"
    assert managers.told(lab) == "manager mha: a source, b replica"
