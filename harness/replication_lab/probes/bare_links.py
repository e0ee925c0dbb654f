"""Links without toxics: what a case without a condition needs."""

from replication_lab.model.core.proof import Proof
from replication_lab.world.docker.lab import Lab


def bare_links(lab: Lab) -> Proof:
    """Prove that no link has a toxic."""
    slowed = [link.name for link in lab.topology.links if lab.link(link.name).toxics()]
    return Proof(
        what="the links have no toxics", expected="no toxic", found=", ".join(slowed) or "no toxic", ok=not slowed
    )
