"""What clusters that exclude silent members share: the role changes that they refuse."""

from replication_lab.replication.role_changes import ONLINE, REJOIN, STANDBY

JOINS = ("a node that starts joins its cluster by itself", "./lab start {node}")
REFUSES = {
    REJOIN: JOINS,
    STANDBY: ("a node leaves its cluster when it is stopped", "./lab stop {node}"),
    ONLINE: JOINS,
}
