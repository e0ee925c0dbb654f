"""The override file, by which Compose puts a Toxiproxy between the services of a project: its text, and its start."""

from pathlib import Path
from typing import Any

import msgspec

from replication_lab.model.lab.attachment import API, DOOR, LABEL, NETWORK, OWNER, Attachment
from replication_lab.model.lab.endpoint import ENDPOINT
from replication_lab.model.lab.topology import HOST_PORTS
from replication_lab.world import compose_template, lab_files
from replication_lab.world.docker import attachments, compose_call, machine
from replication_lab.world.files import write_whole

TEMPLATE = Path(__file__).with_suffix(".yaml.j2")


def override(attached: Attachment, owner: str, linked: dict[str, list[str]]) -> str:
    """Return the text of the override file; `linked` are the `links` that consumers have already."""
    doors = {
        node: (attached.door(node), attached.hosts.get(node, node), attached.ports[node]) for node in attached.nodes
    }
    if attached.endpoint:
        service, _, port = attached.endpoint.rpartition(":")
        doors[ENDPOINT] = (attached.endpoint_door, service, int(port))
    proxies = {DOOR: _proxy(attached, attached.doors, doors)}
    for link in attached.links:
        proxies[link.service] = _proxy(attached, link.networks, {link.name: (link.port, link.server, link.port)})
    consumers = []
    for consumer in attached.consumers:
        mine = [link for link in attached.links if link.consumer == consumer.service]
        replaced, before = {link.server for link in mine}, linked.get(consumer.service, [])
        kept = [each for each in before if each.partition(":")[0] not in replaced]
        own = [f"{link.service}:{name}" for link in mine for name in link.names]
        replaces = len(kept) < len(before)
        consumers.append(
            {"service": consumer.service, "replaces": replaces, "links": [*kept, *own] if replaces else own}
        )
    return compose_template.filled(
        TEMPLATE,
        project=attached.compose.project,
        proxies=proxies,
        consumers=consumers,
        own_network=NETWORK,
        api=API,
        host_ports=HOST_PORTS,
        labels={OWNER: owner, LABEL: attached.compose.project},
        network_labels={OWNER: owner},
    )


def _proxy(attached: Attachment, networks: list[str], entries: dict[str, tuple[int, str, int]]) -> dict[str, Any]:
    """Return what the template needs of a Toxiproxy; `entries` are its port, the server and the server's, by name."""
    listed = [
        {"name": name, "listen": f"0.0.0.0:{port}", "upstream": f"{server}:{server_port}", "enabled": True}
        for name, (port, server, server_port) in entries.items()
    ]
    return {
        "networks": networks,
        # Without a way out no port of it would be published.
        "is_internal": set(networks) <= set(attached.internal),
        "ports": [port for port, _, _ in entries.values()],
        # Compose would replace variables in it.
        "content": msgspec.json.encode(listed).decode().replace("$", "$$"),
    }


def write(attached: Attachment, owner: str, given: attachments.KeptAttachment, linked: dict[str, list[str]]) -> Path:
    """Write the override file and what is kept; return the override file."""
    given.attached, given.owner, given.engine_id = attached, owner, machine.facts().engine_id
    project = attached.compose.project
    write_whole(lab_files.file_of(project, lab_files.ATTACHED), msgspec.json.encode(given))
    write_whole(lab_files.file_of(project, lab_files.OVERRIDE), override(attached, owner, linked).encode())
    return lab_files.file_of(project, lab_files.OVERRIDE)


def start(attached: Attachment) -> None:
    """Add the Toxiproxies, then recreate the consumers with their links."""
    path = lab_files.file_of(attached.compose.project, lab_files.OVERRIDE)
    compose_call.up(attached.compose, dict.fromkeys(attached.added, 1), path)
    compose_call.up(attached.compose, {each.service: each.count for each in attached.consumers}, path)
