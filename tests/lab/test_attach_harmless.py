"""Is nothing of a project lost that does not come back? Real projects, as their authors wrote them."""

import pytest
from replication_lab.world.docker import project

from tests.lab import attaching

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", autouse=True)
def images(built):
    """Build the application of the projects, and the server that stands for the vendor's."""
    attaching.build()


def rows(name, service, query, password):
    """Return what a client in a server's container prints."""
    return attaching.inside(f"{name}-{service}-1", "mysql", "-uroot", f"-p{password}", "-Ne", query)


def test_a_replica_whose_data_are_in_its_container_is_refused(attach, started):
    """Its only volume is for logs, and is called like the server. Its rows are still there, and it still replicates."""
    name = started("lost")
    before = attaching.settings(name)
    rows(name, "mysql-source", "INSERT INTO shop.orders (item) VALUES ('book')", "lost-secret")
    refused = attach("lost", name, "--link", "mysql-replica:mysql-source")

    assert refused.returncode == 3
    assert "datadir: /var/lib/mysql, which is on no volume" in refused.stderr
    assert "a link from mysql-replica would recreate its container" in refused.stderr
    assert attaching.settings(name) == before and name not in project.all_labs()
    assert "Yes" in rows(name, "mysql-replica", "SHOW REPLICA STATUS", "lost-secret")


def test_a_backup_in_the_image_of_a_server_is_a_consumer(attach, command, started):
    """It runs no server, so it may be recreated, and no data are asked for."""
    name = started("lost")
    before = attaching.settings(name)
    answer = attach("lost", name, "--link", "backup:mysql-source")

    assert answer.returncode == 2, answer.stderr
    attaching.restored(command, "lost", name, before)
