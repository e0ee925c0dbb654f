"""Did replicas read their source's log across their links? The source tells where each reader comes from.

A replica's own status shows the name that it dials, not where the packets go.
"""

from contextlib import closing
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.topology import Link
from replication_lab.witnesses.sampled import ANSWER_SECONDS, Sampled
from replication_lab.world.docker.lab import Lab

CROSSES = "replicas read from their source across their links"
# The command of a thread that sends the binary log to a replica, with or without GTIDs.
SENDS = "Binlog Dump"


def paths(lab: Lab) -> Sampled:
    """Return the witness of all links of a lab that lead to a database server."""
    apart, by_source = lab.another(), dict[str, list[Link]]()
    names = {node.name for node in lab.topology.nodes}
    for link in lab.topology.links:
        if {link.source, link.target} <= names and not link.echoes:
            by_source.setdefault(link.server, []).append(link)
    return Sampled(CROSSES, {source: _Readers(apart, source, links) for source, links in by_source.items()})


@dataclass
class _Readers:
    """The threads of one source that send its log."""

    lab: Lab
    source: str
    links: list[Link]

    def __call__(self) -> list[str]:
        try:
            with closing(self.lab.node(self.source).server().within(ANSWER_SECONDS)) as server:
                found = server.rows("SHOW PROCESSLIST")
        except LabError:
            # A restarted container has another port.
            self.lab.refresh()
            raise
        hosts = {str(row["Host"]).rpartition(":")[0] for row in found if str(row["Command"]).startswith(SENDS)} - {""}
        return [
            f"{link.dialler} read from {self.source} past link {link.name}"
            for link in self.links
            if hosts & self.lab.service(link.dialler).addresses()
        ]
