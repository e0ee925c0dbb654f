"""A lab on several sites: whether a running one is where it was asked for."""

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.site import SERVER_PORT
from replication_lab.world.docker import sites
from replication_lab.world.docker.lab import Lab


def refuse_another_place(lab: Lab, asked: LabRequest) -> None:
    """Raise LabError if a running lab has its nodes on other sites than was asked for, or not the address."""
    if asked.address:
        _refuse_without_address(lab, asked.address)
    if not asked.sites:
        return
    at = {node.name: sites.of_service(lab.name, node.name) for node in lab.topology.nodes}
    if asked.sites != at:
        raise LabError(
            f"{lab.name} is already running with {', '.join(f'{node} at {site}' for node, site in at.items())}",
            "the same --site and --site-address as before, or another --lab",
            f"./lab down --lab {lab.name}",
        )


def _refuse_without_address(lab: Lab, address: str) -> None:
    published = {each["HostIp"] for each in lab.node(lab.topology.source.name).bindings(SERVER_PORT)}
    # A server that is stopped has no ports.
    if published and address not in published:
        raise LabError(
            f"{lab.name} is already running, and not published on {address}",
            "no --site-address, or another --lab",
            f"./lab down --lab {lab.name}",
        )
