"""The shop's database with a replica, for tests."""

import pytest


@pytest.fixture(scope="session")
def lab_cluster_options():
    """Return a source and an asynchronous replica, with the shop's schema."""
    return {"topology": "async", "init": "suite/shop.sql", "rtt": "40ms"}
