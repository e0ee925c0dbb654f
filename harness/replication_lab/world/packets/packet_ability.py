"""Whether the kernels here can do to packets what conditions ask for; refused before anything starts."""

from collections.abc import Iterable

from replication_lab.model.lab.topology import Topology
from replication_lab.model.lab.toxic import Toxic
from replication_lab.world.packets import netem, packet_loss


def refuse_unable(wanted: Iterable[tuple[str, Toxic]], topologies: Iterable[Topology]) -> None:
    """Raise LabError, naming what the kernel of this host lacks, if it cannot make a toxic on a link or a node's links.

    Between virtual machines packets are duplicated and reordered by their own kernel, which can.
    """
    found, known = list(wanted), list(topologies)
    packet_loss.refuse_unable(toxic for _, toxic in found)
    netem.refuse_unable(toxic for target, toxic in found if not _in_guests(target, known))


def _in_guests(target: str, topologies: Iterable[Topology]) -> bool:
    links = [link for each in topologies for link in each.links if target in (link.name, link.source, link.target)]
    return bool(links) and all(link.joins_guests for link in links)
