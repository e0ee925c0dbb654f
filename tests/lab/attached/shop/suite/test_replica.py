"""What does a slow or a lost replica do to orders?"""

import time

ORDER = "INSERT INTO shop.orders (item) VALUES ('book')"


def test_an_order_does_not_wait_for_a_slow_replica(lab_cluster):
    """Replication is asynchronous."""
    with lab_cluster.link("source-replica").toxic("200ms"):
        began = time.monotonic()
        lab_cluster.writer.execute(ORDER)
        assert time.monotonic() - began < 0.2, "it waited for a round trip"


def test_an_order_is_taken_while_the_replica_is_lost(lab_cluster):
    """It arrives later."""
    with lab_cluster.node("replica").kill():
        lab_cluster.writer.execute(ORDER)

    lab_cluster.wait_until_level()
    count = "SELECT COUNT(*) FROM shop.orders"
    assert lab_cluster.node("replica").value(count) == lab_cluster.writer.value(count)
