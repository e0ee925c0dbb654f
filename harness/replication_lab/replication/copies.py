"""The copies of a lab's data, waited for until they are level, and compared."""

from replication_lab.replication import group
from replication_lab.world import drbd
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server


def wait_for_copies(lab: Lab) -> None:
    """Until every node has applied what its source, or its cluster, had committed when asked."""
    if lab.topology.replication == "drbd":
        drbd.wait_until_whole(lab)
    elif lab.topology.replication == "group":
        group.Group(lab).settle()
    elif lab.topology.replication == "galera":
        for node in lab.topology.nodes:
            lab.server(node.name).wait_for_writesets()
    else:
        for link in lab.topology.links:
            lab.server(link.target).wait_for(lab.server(link.source).position())


def differences(lab: Lab) -> list[str]:
    """In what a copy differs from its source, or from its cluster's first node; empty where all are equal."""
    wait_for_copies(lab)
    if lab.topology.replication == "drbd":
        differing = drbd.verify(lab)
        return [f"the two disks differ in {differing} KiB"] if differing else []
    source = lab.server(lab.topology.source.name)
    return [found for node in lab.topology.replicas if (found := _difference(lab, node.name, source))]


def _difference(lab: Lab, node: str, source: Server) -> str:
    copy = lab.server(node)
    tables = [table for table in source.tables("lab") if source.checksum(table) != copy.checksum(table)]
    return f"{node} differs from {source.name} in {', '.join(tables)}" if tables else ""
