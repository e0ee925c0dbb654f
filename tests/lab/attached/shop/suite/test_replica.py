"""What does a slow or a lost replica do to orders?"""

import timeit

ORDER = "INSERT INTO shop.orders (item) VALUES ('book')"


def test_an_order_does_not_wait_for_a_slow_replica(lab_cluster):
    """Replication is asynchronous."""
    with lab_cluster.link("source-replica").toxic("200ms"):
        seconds = timeit.repeat(lambda: lab_cluster.writer.execute(ORDER), number=1, repeat=10)
    # A busy machine makes some orders slower, and none faster.
    assert min(seconds) < 0.2, "each waited for a round trip"


def test_an_order_is_taken_while_the_replica_is_lost(lab_cluster):
    """It arrives later."""
    with lab_cluster.node("replica").kill():
        lab_cluster.writer.execute(ORDER)

    lab_cluster.wait_until_caught_up()
    count = "SELECT COUNT(*) FROM shop.orders"
    assert lab_cluster.node("replica").value(count) == lab_cluster.writer.value(count)
