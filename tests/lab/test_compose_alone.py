"""The Compose files are usable without the harness."""

import os
import subprocess

import pytest

from harness.world import catalogue, compose

FILES = catalogue.topologies()


@pytest.mark.parametrize("topology", FILES)
def test_a_compose_file_alone_gives_a_replicating_topology(topology, name):
    """`docker compose up --wait` and nothing else: a row of the source is on every other node."""
    docker_compose = ["docker", "compose", "-p", name, "-f", f"compose/{topology}.yaml"]

    subprocess.run([*docker_compose, "up", "--wait"], cwd=catalogue.ROOT, check=True, capture_output=True, timeout=120)

    lab = compose.find(name)
    source = lab.server(lab.topology.source.name)
    source.execute("CREATE TABLE lab.t (id INT PRIMARY KEY)", "INSERT INTO lab.t VALUES (42)")
    for link in lab.topology.links:
        lab.server(link.target).wait_for(lab.server(link.source).position())
    copies = {node.name: lab.server(node.name).value("SELECT id FROM lab.t") for node in lab.topology.nodes}

    assert dict.fromkeys(copies, 42) == copies
    assert lab.password == "lab", "without the harness the password is the documented one"


@pytest.mark.parametrize("topology", FILES)
@pytest.mark.parametrize("engine", ["mariadb", "mysql", "percona"])
def test_the_vendors_images_fit_the_same_compose_files(topology, engine):
    """LAB_IMAGES=upstream resolves to the vendors' images; only `config` can be checked without a registry."""
    environment = {**os.environ, "LAB_IMAGES": "upstream", "ENGINE": engine}

    resolved = subprocess.run(
        ["docker", "compose", "-f", f"compose/{topology}.yaml", "config", "--images"],
        cwd=catalogue.ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )

    vendors = {"mariadb": "mariadb:11.8", "mysql": "mysql:8.4", "percona": "percona/percona-server:8.4"}
    assert {vendors[engine], "ghcr.io/shopify/toxiproxy:2.12.0"} == set(resolved.stdout.split())


def test_host_ports_are_on_loopback_only(name):
    """Nothing that a lab publishes can be reached from another machine."""
    subprocess.run(
        ["docker", "compose", "-p", name, "-f", "compose/chain.yaml", "up", "--detach"],
        cwd=catalogue.ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )

    lab = compose.find(name)
    addresses = {
        binding["HostIp"]
        for one in lab.containers.values()
        for bindings in one.ports.values()
        for binding in bindings or []
    }

    assert addresses == {"127.0.0.1"}
