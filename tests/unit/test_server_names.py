"""Is the source of a replica found by any name that Compose gives it, and refused where no alias would redirect it?"""

from dataclasses import replace

import pytest
from replication_lab.attach.server_names import refuse_undirectable, server_at
from replication_lab.world.mysql.replica import ReplicaStatus

from tests.unit.attached_projects import APPLICATION, DATABASE, project

REPLICA = replace(DATABASE, name="shop-replica-1", addresses={"shop_default": "172.20.0.5"}, hostname="0123456789ab")
SOURCE = replace(DATABASE, hostname="aaaabbbbcccc")


def of(services=None, running=None):
    found = {"db": [SOURCE], "replica": [REPLICA], **(running or {})}
    return project({"replica": {}, **(services or {})}, found)


def at(host, port=3306):
    return ReplicaStatus(True, True, host, port, "", 0)


@pytest.mark.parametrize(
    ("services", "host"),
    [
        ({}, "db"),
        ({}, "DB"),
        ({}, "shop-db-1"),
        ({}, "172.20.0.2"),
        ({}, "aaaabbbbcccc"),
        ({}, "db.shop_default"),
        ({"replica": {"links": ["db:mysql"]}}, "mysql"),
        ({"replica": {"links": ["db"]}}, "db"),
        ({"replica": {"extra_hosts": ["mysql=172.20.0.2"]}}, "mysql"),
        ({"replica": {"extra_hosts": {"primary": "172.20.0.2"}}}, "primary"),
        ({"db": {"container_name": "shop-mysql"}}, "shop-mysql"),
        ({"db": {"hostname": "mysql.internal"}}, "mysql.internal"),
        ({"db": {"networks": {"default": {"aliases": ["master"]}}}}, "master"),
        ({"db": {"network_mode": "service:vpn"}, "vpn": {}}, "vpn"),
        ({"db": {"network_mode": "container:shop-vpn-1"}, "vpn": {}}, "vpn"),
    ],
)
def test_a_source_is_known_by_every_name(services, host):
    """Of the service, its container, its networks, of links and hosts of the replica, of the network that it shares."""
    vpn = [replace(APPLICATION, name="shop-vpn-1")]

    assert server_at(of(services, {"vpn": vpn} if "vpn" in services else None), "replica", at(host)) == "db"


@pytest.mark.parametrize(
    ("services", "host"),
    [
        ({}, "elsewhere.example"),
        ({}, "172.20.0.3"),
        ({}, "app"),
        ({"app": {"links": ["db:mysql"]}}, "mysql"),
        ({"replica": {"extra_hosts": ["db=10.0.0.9"]}}, "db"),
    ],
)
def test_other_names_are_no_server_of_the_project(services, host):
    """Those of an application, of another service's links, or one that the replica's hosts lead elsewhere."""
    assert server_at(of(services), "replica", at(host)) is None


def test_a_port_tells_servers_that_share_a_name():
    """Two servers in one network namespace, and one by a port of the host."""
    shared = {
        "db": {"network_mode": "service:vpn", "expose": ["3306"]},
        "db2": {"network_mode": "service:vpn", "expose": ["3307"]},
        "vpn": {},
    }
    bare = replace(SOURCE, exposed=frozenset())
    found = of(shared, {"db": [bare], "db2": [bare], "vpn": [APPLICATION]})
    published = of({"db": {"ports": [{"target": 3306, "published": "13306"}]}})

    assert server_at(found, "replica", at("vpn", 3307)) == "db2"
    assert server_at(found, "replica", at("vpn", 3306)) == "db"
    assert server_at(published, "replica", at("host.docker.internal", 13306)) == "db"
    assert server_at(published, "replica", at("host.docker.internal", 13307)) is None


def test_a_name_that_no_file_tells_is_asked_in_the_container():
    """By the container's own resolver; an address is not asked for."""
    asked = []

    def ask(service, name):
        asked.append((service, name))
        return "172.20.0.2" if name == "set-by-hand" else ""

    assert server_at(of(), "replica", at("set-by-hand"), ask) == "db"
    assert server_at(of(), "replica", at("elsewhere.example"), ask) is None
    assert server_at(of(), "replica", at("10.0.0.9"), ask) is None
    assert asked == [("replica", "set-by-hand"), ("replica", "elsewhere.example")]


@pytest.mark.parametrize(
    ("services", "dialled", "why"),
    [
        ({"replica": {"extra_hosts": ["mysql=172.20.0.2"]}}, ("mysql", 3306), "its extra_hosts set to 172.20.0.2"),
        ({}, ("172.20.0.2", 3306), "by its address 172.20.0.2"),
        ({}, ("localhost", 3306), "leads to no container by its name"),
        ({}, ("host.docker.internal", 13306), "leads to no container by its name"),
        ({}, ("db", 3307), "at port 3307, and the link is at port 3306"),
    ],
)
def test_a_connection_that_no_alias_redirects_is_refused(services, dialled, why, refused):
    """The link would carry nothing."""
    error = refused(refuse_undirectable, of(services), "replica", "db", dialled, 3306)

    assert error.found.startswith("replica replicates from db") and why in error.found
    assert "./lab attach --project-name shop" in error.next_step


def test_a_connection_by_a_name_is_redirected():
    """Also by one of `links`."""
    refuse_undirectable(of({"replica": {"links": ["db:mysql"]}}), "replica", "db", ("mysql", 3306), 3306)
