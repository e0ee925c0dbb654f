"""Is a lab on one engine published on an address that the user names, and only its servers?"""

from types import SimpleNamespace

import yaml
from replication_lab.lab import sites
from replication_lab.model.lab import site
from replication_lab.model.lab.companion import AskedCompanion
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.world import catalogue
from replication_lab.world.docker import not_started, site_files

SEMISYNC = catalogue.topology("semisync")
DB2 = "tcp://10.1.0.2:2375"
ADDRESSES = {"source": "10.1.0.1", "replica": "10.1.0.2"}


def test_a_lab_on_one_engine_is_also_published_on_an_address_that_other_machines_reach(refused):
    """With --site, the addresses lead from one site to another."""
    assert site.published_at(SEMISYNC, {}, {"replica": "10.1.0.2"}) == "10.1.0.2"
    assert site.published_at(SEMISYNC, {}, {}) == site.published_at(SEMISYNC, {"replica": DB2}, ADDRESSES) == ""
    for addresses, found in (
        ({"nobody": "10.1.0.2"}, "unknown node of semisync 'nobody'"),
        ({"source": "0.0.0.0"}, "other machines cannot reach a site at 0.0.0.0"),
        (ADDRESSES, "replica's site has the addresses 10.1.0.1 and 10.1.0.2"),
    ):
        assert refused(site.published_at, SEMISYNC, {}, addresses).found.startswith(found)


def test_a_proxy_or_a_manager_is_not_published_on_an_address(refused):
    """Clients have the proxy's port, which is on loopback."""
    asked = AskedCompanion("haproxy")
    found = refused(LabRequest, SEMISYNC, "mariadb", "lab-a", endpoint=asked, address="10.1.0.2")

    assert found.found == "--endpoint with --site-address, which publishes nodes"


def test_on_one_engine_only_the_servers_are_published_on_the_address():
    """A node of a cluster is in the network of its sidecar."""
    pair = yaml.safe_load(site_files.published(SEMISYNC, "10.1.0.2"))
    cluster = yaml.safe_load(site_files.published(catalogue.topology("galera"), "10.1.0.2"))

    assert pair == {
        "services": {"source": {"ports": ["10.1.0.2:20001:3306"]}, "replica": {"ports": ["10.1.0.2:20002:3306"]}}
    }
    assert cluster["services"]["sidecar3"] == {"ports": ["10.1.0.2:20003:3306"]} and len(cluster["services"]) == 3
    assert site_files.published(SEMISYNC, "") == ""


def test_a_lab_that_runs_without_the_address_is_not_taken_for_one_with_it(refused):
    """Its containers would have to be made again; a server that is stopped has no ports to compare."""
    ports = [{"HostIp": "127.0.0.1", "HostPort": "23000"}]
    lab = SimpleNamespace(name="shop", topology=SEMISYNC, node=lambda _: SimpleNamespace(bindings=lambda _port: ports))
    asked = LabRequest(SEMISYNC, "mariadb", "shop", address="10.1.0.2")

    assert refused(sites.refuse_another_place, lab, asked).found.endswith("not published on 10.1.0.2")
    ports.append({"HostIp": "10.1.0.2", "HostPort": "20001"})
    sites.refuse_another_place(lab, asked)
    ports.clear()
    sites.refuse_another_place(lab, asked)


def test_an_address_that_the_machine_does_not_have_is_told():
    """In Docker's own words, with the way to find one."""
    lab = SimpleNamespace(name="shop", refresh=lambda: None)
    found = not_started.why_not_started(lab, "bind: cannot assign requested address")

    assert "no such --site-address" in found.found and "`ip address`" in found.expected
