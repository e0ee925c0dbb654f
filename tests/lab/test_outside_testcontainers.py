"""Does the wheel with its extra `testcontainers`, installed from the index, test a container in a project of its own?

Ryuk's image cannot be had everywhere, so the library runs without it.
"""

import pytest
from replication_lab.world import catalogue
from replication_lab.world.docker import engine, images

from tests.lab.outside import Outside

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
CONSUMER = catalogue.ROOT / "tests" / "consumer"
# An image of the lab in place of MySQL's, and what it says when it is ready.
ENVIRONMENT = {
    "SHOP_MYSQL": "replication-lab/mysql-8.0",
    "SHOP_READY": r".*: ready for connections.*port: 3306.*",
    "TESTCONTAINERS_RYUK_DISABLED": "true",
}


@pytest.fixture(scope="module")
def outside(tmp_path_factory, built):
    """Return the folders of a user who has installed the wheel with the extra, and pytest."""
    images.ensure(["mysql-8.0", "toxiproxy"])
    user = Outside(tmp_path_factory.mktemp("testcontainers"), ENVIRONMENT)
    user.install("testcontainers")
    user.type("pip install -q pytest pymysql")
    user.copy(CONSUMER, "shop")
    return user


def test_the_tests_of_the_page_pass_there(outside):
    """They are those that docs/pytest.md shows: far away, out of reach, slow. Nothing is left."""
    assert "3 passed" in outside.type("python -m pytest -q -p no:cacheprovider tests/test_containers.py", "shop")
    assert [each.name for each in engine.client().containers.list(all=True) if each.name.startswith("link-")] == []


def test_a_link_that_nothing_crosses_fails_the_test_there(outside):
    """The sabotage: the test connects to the container itself."""
    file = outside.work / "shop" / "tests" / "test_past_the_link.py"
    file.write_text(
        "from shop.orders import Orders\n"
        "from test_containers import mysql, proved_link\n\n\n"
        "def test_the_shop_goes_past_the_link(mysql):\n"
        "    past = f'mysql://shop:secret@{mysql.get_container_host_ip()}:{mysql.get_exposed_port(3306)}/shop'\n"
        "    with proved_link(mysql, 3306, '85ms'):\n"
        "        Orders(writes=past, reads=past).place('coffee')\n"
    )
    said = outside.type("python -m pytest -q -p no:cacheprovider tests/test_past_the_link.py", "shop", ends=(1,))

    assert "Unproved" in said and "1 failed" in said, said
