"""GTIDs with a tag (MySQL 8.3 and later) on real servers: counted, waited for and named like those without."""

import pytest
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.probes.commit_latency import TABLE
from replication_lab.replication import failover
from replication_lab.world import clock, signals
from replication_lab.world.docker import images
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica

ENGINE = "mysql"
LINK = "source-replica"
TAGGED = "SET SESSION gtid_next = 'AUTOMATIC:shop'"


@pytest.fixture
def pair(new_lab):
    """Yield a source and an asynchronous replica beside it, of a version that knows tags."""
    images.ensure(up.image_names(ENGINE))
    lab = new_lab("async", ENGINE, toxics={LINK: "lan"})
    yield lab
    with signals.signals_held():
        lab.down()


def write_with_tag(lab, node, rows):
    """Insert one row a transaction, each with a GTID that has a tag."""
    lab.node(node).server().execute(TAGGED, *[f"INSERT INTO {TABLE} (at) VALUES (0)"] * rows)


def count(lab, node):
    """Return the number of rows of a node."""
    return lab.node(node).server().value(f"SELECT COUNT(*) FROM {TABLE}")


@pytest.mark.long
def test_a_failover_waits_for_transactions_with_a_tag_and_counts_those_that_are_lost(pair):
    """Five arrive and survive; three are committed while the link is cut, and are named with their tag."""
    kept = count(pair, "source")
    write_with_tag(pair, "source", 5)
    Replica(pair.node("replica").server()).wait_for(BinaryLog(pair.node("source").server()).position())
    pair.link(LINK).cut()
    write_with_tag(pair, "source", 3)

    with pytest.raises(LabError, match=r"replica is behind: source has 3 transactions: .*:shop:6 to .*:shop:8"):
        failover.failover(pair, "replica")
    pair.node("source").kill()
    clock.wait_until(lambda: pair.node("source").state()[0] == "exited", "the source's end")
    failover.failover(pair, "replica")
    pair.link(LINK).enable()
    pair.node("source").start_again()
    with pytest.raises(LabError, match=r"source has 3 transactions: .*:shop:6"):
        failover.rejoin(pair, "source")
    done = failover.rejoin(pair, "source", discard_errant=True)
    write_with_tag(pair, "replica", 2)
    Replica(pair.node("source").server()).wait_for(BinaryLog(pair.node("replica").server()).position())

    assert done.discarded.startswith("3 transactions: ")
    assert count(pair, "source") == count(pair, "replica") == kept + 7
