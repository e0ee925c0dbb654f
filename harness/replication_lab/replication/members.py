"""What clusters that exclude silent members share: sentences of the live view, and role changes that they refuse."""

from replication_lab.model.live.explained import Rule
from replication_lab.replication.role_changes import ONLINE, REJOIN, STANDBY

JOINS = ("a node that starts joins its cluster by itself", "./lab start {node}")
REFUSES = {
    REJOIN: JOINS,
    STANDBY: ("a node leaves its cluster when it is stopped", "./lab stop {node}"),
    ONLINE: JOINS,
}

RULES = (
    Rule(
        lambda now: now.stalled,
        lambda now: (
            f"No commit was acknowledged {now.stalled_for}{now.because}: the cluster waits until it has excluded "
            "the nodes that do not answer."
        ),
    ),
    Rule(
        lambda now: bool(now.others),
        lambda now: f"The cluster continues without some of its nodes ({now.away}){now.because}.",
    ),
)
