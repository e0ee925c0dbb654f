"""Did replicas read their source's log across their links? The source tells where each reader comes from.

A replica's own status shows the name that it dials, not where the packets go.
"""

from collections.abc import Collection
from dataclasses import dataclass

from replication_lab.model.lab.topology import Link
from replication_lab.replication import kind_of
from replication_lab.witnesses.sampled import Sampled
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server

CROSSES = "replicas read from their source across their links"
# The command of a thread that sends the binary log to a replica, with or without GTIDs.
SENDS = "Binlog Dump"


def paths(lab: Lab, across: Collection[str] | None = None) -> Sampled[Server]:
    """Return the witness of all links of a lab across which a replica reads its source's log.

    `across` names the links that must be crossed, if not all: a link without a condition changes nothing for whoever
    reads past it, as some cases arrange.
    The nodes of a cluster do not; a node that rejoins a group reads one, and its sidecar hides where it comes from.
    """
    by_source = dict[str, list[Link]]()
    names = {node.name for node in lab.topology.nodes} if kind_of(lab.topology).follows_a_source else set()
    for link in lab.topology.links:
        if {link.source, link.target} <= names and not link.echoes and (across is None or link.name in across):
            by_source.setdefault(link.server, []).append(link)
    return Sampled(CROSSES, lab, {source: _Readers(lab, links) for source, links in by_source.items()})


def readers(source: Server) -> set[str]:
    """Return the addresses to which a source's threads send its log, also those of connections that have just ended."""
    found = source.rows("SHOW PROCESSLIST")
    return {str(row["Host"]).rpartition(":")[0] for row in found if str(row["Command"]).startswith(SENDS)} - {""}


@dataclass
class _Readers:
    """The threads of one source that send its log."""

    lab: Lab
    links: list[Link]

    def __call__(self, source: Server) -> list[str]:
        hosts = readers(source)
        return [
            f"{link.dialler} read from {source.name} past link {link.name}"
            for link in self.links
            if hosts & self.lab.service(link.dialler).addresses()
        ]
