"""The shop while its replica is well, far away, or lost."""

import time
import timeit

import pymysql
import pytest


def seconds_until(found, timeout=20):
    """Return how long it took until `found` was true."""
    began = time.monotonic()
    while not found():
        assert time.monotonic() < began + timeout, "it did not come true"
    return time.monotonic() - began


def test_an_order_reaches_the_replica(orders, lab_cluster):
    """The count comes from the replica."""
    orders.place("tea")
    lab_cluster.wait_until_caught_up()

    assert orders.count() >= 1
    assert lab_cluster.node("replica").value("SELECT COUNT(*) FROM lab.orders") == orders.count()


def test_orders_do_not_wait_for_a_slow_line(orders, lab_cluster):
    """Replication is asynchronous: the line slows the replica, not the shop."""
    with lab_cluster.link("source-replica").toxic("500ms"):
        seconds = timeit.repeat(lambda: orders.place("coffee"), number=1, repeat=10)
    # A busy machine makes some orders slower, and none faster.
    assert min(seconds) < 0.5


def test_the_replica_is_behind_while_the_line_is_cut(orders, lab_cluster):
    """Orders continue; the replica catches up when the line is back."""
    with lab_cluster.link("source-replica").cut():
        before = orders.count()
        orders.place("cocoa")
        assert orders.count() == before

    seconds_until(lambda: orders.count() == before + 1)


def test_the_shop_reads_from_the_source_while_the_replica_is_lost(orders, lab_cluster):
    """A reader sees no error."""
    replica = lab_cluster.node("replica")
    with replica.kill():
        with pytest.raises(pymysql.err.OperationalError):
            orders._count(orders._reads)
        orders.place("milk")

    assert replica.value("SELECT 1") == 1


def test_a_reader_across_the_line_waits_for_it(lab_cluster):
    """The DSN of a link leads to its far end across it: an application there has the line's round trip."""
    with lab_cluster.link("source-replica").toxic("100ms"), lab_cluster.connect() as near:
        from shop.orders import connect

        with connect(lab_cluster.link("source-replica").dsn) as far:
            assert _seconds(far) > 0.08 > _seconds(near)


def _seconds(connection):
    with connection.cursor() as cursor:
        return min(timeit.repeat(lambda: cursor.execute("SELECT 1"), number=1, repeat=10))
