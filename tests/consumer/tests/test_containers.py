"""The shop at a database that Testcontainers starts: far away, out of reach, slow."""

import os
import timeit

import pymysql
import pytest
from shop.orders import Orders

pytest.importorskip("testcontainers")
from replication_lab.testcontainers import proved_link
from testcontainers.community.mysql import MySqlContainer


@pytest.fixture(scope="module")
def mysql():
    """Return the shop's database; SHOP_MYSQL and SHOP_READY are another image, and what it says when it is ready."""
    ready = {"wait_strategy_check_string": os.environ["SHOP_READY"]} if "SHOP_READY" in os.environ else {}
    image = os.environ.get("SHOP_MYSQL", "mysql:8.4")
    with MySqlContainer(image, username="shop", password="secret", dbname="shop", **ready) as found:
        yield found


def orders_at(link):
    """Return the shop on a link."""
    dsn = f"mysql://shop:secret@{link.host}:{link.port}/shop"
    return Orders(writes=dsn, reads=dsn)


def test_an_order_waits_for_a_database_that_is_far_away(mysql):
    """The shop writes across a link of 85 ms."""
    with proved_link(mysql, 3306, "85ms") as link:
        orders = orders_at(link)
        seconds = timeit.repeat(lambda: orders.place("coffee"), number=1, repeat=5)

    assert min(seconds) >= 0.085


def test_the_shop_reports_a_database_that_it_cannot_reach(mysql):
    """It gets an error at once while the link is cut, and works afterwards."""
    with proved_link(mysql, 3306) as link:
        orders = orders_at(link)
        with link.cut(), pytest.raises(pymysql.err.OperationalError):
            orders.place("milk")
        orders.place("milk")


def test_a_slow_answer_is_an_answer(mysql, lab_proved_link):
    """The shop waits five seconds for each."""
    with lab_proved_link(mysql, 3306, "200ms") as link:
        orders_at(link).place("tea")
