"""The shop on a lab: its source and its replica."""

import pytest
from shop.orders import Orders


@pytest.fixture(scope="session")
def lab_cluster_options():
    """Return the topology of lab/topologies/branch.yaml, with a smaller replica."""
    return {"topology": "branch", "settings": {"replica.max_connections": 50}}


@pytest.fixture
def orders(lab_cluster):
    """Return the shop on the lab."""
    return Orders(writes=lab_cluster.dsn, reads=lab_cluster.node("replica").dsn)
