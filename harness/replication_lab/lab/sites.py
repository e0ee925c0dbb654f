"""The start of a lab on several sites: their images, and whether a running lab is where it was asked for."""

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.world.docker import beside_nodes, images, servers, site_images, sites
from replication_lab.world.docker.lab import Lab


def bring_images(asked: LabRequest) -> None:
    """Bring to other sites the images of their nodes, of Toxiproxy, and of the clients that measure links there."""
    found = [servers.ready(text) for text in servers.of_nodes(asked.topology, asked.engine).values()]
    names = [each.image or images.PREFIX + each.engine for each in found]
    own = ["toxiproxy", beside_nodes.IMAGE, *(["load"] if asked.load else [])]
    for endpoint in sorted({site.endpoint for site in asked.sites.values()} - {""}):
        images.ensure([beside_nodes.IMAGE])
        site_images.bring(endpoint, list(dict.fromkeys([*names, *(images.PREFIX + each for each in own)])))


def refuse_another_place(lab: Lab, asked: LabRequest) -> None:
    """Raise LabError if a running lab has its nodes on other sites than those that were asked for."""
    if not asked.sites:
        return
    at = {node.name: sites.of_service(lab.name, node.name) for node in lab.topology.nodes}
    if asked.sites != at:
        raise LabError(
            f"{lab.name} is already running with {', '.join(f'{node} at {site}' for node, site in at.items())}",
            "the same --site and --site-address as before, or another --lab",
            f"./lab down --lab {lab.name}",
        )
