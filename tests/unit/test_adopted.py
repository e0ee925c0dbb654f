"""What a failover manager leaves to do is found, told and done; against servers that are only state."""

from replication_lab.replication import failover
from replication_lab.replication.switchover import adopt

from tests.fakes import standing

nodes_answer, lab = standing.nodes_answer, standing.lab


def promoted(lab):
    """Let the replica `near` take writes without a source, as a script of a manager does."""
    near = lab.nodes["near"]
    near.port, near.read_only = None, False


def test_a_replica_that_still_follows_the_old_source_is_repointed_and_the_old_one_taken_back(lab):
    """Both are told, and so is an old source that takes writes."""
    promoted(lab)
    done, left = adopt(lab, "near", "source")

    assert done.repointed == ["far"] and done.replaced == ["source"]
    assert left == [
        "source takes writes, too",
        "far replicates from source, not from near",
        "source replicates from no node, not from near",
    ]
    assert {"read_only": 1} in lab.nodes["source"].told
    assert lab.files["near", failover.ROLE] == b"--read-only=0\n"


def test_a_replica_that_is_ahead_of_the_promoted_one_is_taken_back(lab):
    """It comes before the node that has no source: it could not follow that one's replica."""
    promoted(lab)
    lab.nodes["far"].has = "0-1-12"
    done, _ = adopt(lab, "near", "source")

    assert done.repointed == [] and done.replaced == ["far", "source"]


def test_an_old_source_that_a_manager_has_taken_back_ahead_of_the_promoted_one_is_taken_back_by_a_person(lab):
    """It follows, and gets an error instead of transactions; one that replicates is left as it is."""
    promoted(lab)
    old, far = lab.nodes["source"], lab.nodes["far"]
    old.read_only, old.ended = True, "1236 it is not in the master's binlog"
    old.port, far.port = (failover.link_port(lab, "near", name) for name in ("source", "far"))
    done, left = adopt(lab, "near", "source")

    assert done.repointed == [] and done.replaced == ["source"] and old.port is None
    assert left == ["source cannot replicate from near: 1236 it is not in the master's binlog"]


def test_an_old_source_that_is_ahead_is_taken_back_before_its_replication_ends(lab):
    """It replicates until the promoted one has transactions of higher numbers than those that it lacks."""
    promoted(lab)
    old, far = lab.nodes["source"], lab.nodes["far"]
    old.read_only, old.has, old.applying = True, "0-1-12", True
    old.port, far.port = (failover.link_port(lab, "near", name) for name in ("source", "far"))
    done, left = adopt(lab, "near", "source")

    assert done.replaced == ["source"] and old.port is None
    assert left == ["source cannot replicate from near: it has 2 transactions: 0-1-11 to 0-1-12, which near lacks"]


def test_a_replica_whose_threads_a_manager_has_stopped_is_started_by_a_person(lab):
    """As one to which its cluster was about to give the role when the old source came back."""
    promoted(lab)
    far = lab.nodes["far"]
    far.port, far.applying = failover.link_port(lab, "near", "far"), False
    _, left = adopt(lab, "near", "source")

    assert left[1] == "far has stopped replicating from near, without an error" and far.told[-1] == "start"
