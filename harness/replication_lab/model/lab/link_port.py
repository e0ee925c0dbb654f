"""The port at Toxiproxy of a link that a failover makes."""

from collections.abc import Sequence

# 22000 + 100 × source + target, by their places in the topology.
FIRST_PORT = 22_000


def made_port(nodes: Sequence[str], source: str, target: str) -> int:
    """Return the port of the link between two of a topology's nodes, which no link of the topology has."""
    return FIRST_PORT + 100 * nodes.index(source) + nodes.index(target)
