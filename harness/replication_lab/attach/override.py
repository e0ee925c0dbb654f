"""The override file, by which Compose puts a Toxiproxy between the services of a project: its text, and its start."""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from replication_lab.model.lab.attachment import API, DOOR, LABEL, NETWORK, OWNER, AttachedLink, Attachment
from replication_lab.model.lab.endpoint import ENDPOINT
from replication_lab.world.docker import attachments, compose_call, machine
from replication_lab.world.files import write_whole

HEAD = """\
# Written by `lab attach` for the Compose project {project}; `lab detach --lab {project}` undoes it.
# It adds a Toxiproxy for each link. The alias under `links` overrides the name of the server, for one service only.
"""


class _InPlace(list[str]):
    """A list that replaces the one of the earlier files, where Compose would append."""


class _Dumper(yaml.SafeDumper):
    """YAML with Compose's tag for such a list."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


_Dumper.add_representer(_InPlace, lambda dumper, data: dumper.represent_sequence("!override", data, flow_style=True))


def override(attached: Attachment, owner: str, linked: dict[str, list[str]]) -> str:
    """Return the text of the override file; `linked` are the `links` that consumers have already."""
    services = {DOOR: _door(attached, owner)}
    services |= {link.service: _through(attached, link, owner) for link in attached.links}
    for consumer in attached.consumers:
        mine = [link for link in attached.links if link.consumer == consumer.service]
        services[consumer.service] = {"links": _links(mine, linked.get(consumer.service, []))}
    document: dict[str, Any] = {"services": services, "configs": _configs(attached)}
    if any(NETWORK in service.get("networks", ()) for service in services.values()):
        document["networks"] = {NETWORK: {"labels": {OWNER: owner}}}
    body = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return HEAD.format(project=attached.compose.project) + body


def _links(mine: list[AttachedLink], linked: list[str]) -> list[str]:
    replaced = {link.server for link in mine}
    kept = [each for each in linked if each.partition(":")[0] not in replaced]
    own = [f"{link.service}:{name}" for link in mine for name in link.names]
    return _InPlace([*kept, *own]) if len(kept) < len(linked) else own


def _door(attached: Attachment, owner: str) -> dict[str, Any]:
    ports = [attached.door(node) for node in attached.nodes]
    ports += [attached.endpoint_door] if attached.endpoint else []
    return _service(attached, owner, DOOR, attached.doors, ports)


def _through(attached: Attachment, link: AttachedLink, owner: str) -> dict[str, Any]:
    return _service(attached, owner, link.service, link.networks, [link.port])


def _service(attached: Attachment, owner: str, name: str, networks: list[str], ports: list[int]) -> dict[str, Any]:
    all_internal = set(networks) <= set(attached.internal)
    return {
        "image": "replication-lab/toxiproxy",
        "command": ["-host=0.0.0.0", "-config=/toxiproxy.json", "-proxy-metrics"],
        "configs": [{"source": name, "target": "/toxiproxy.json", "mode": 0o444}],
        "networks": [*networks, *([NETWORK] if all_internal else [])],
        "ports": [f"127.0.0.1::{port}" for port in (API, *ports)],
        "healthcheck": {
            "test": ["CMD", "/toxiproxy-cli", "list"],
            "interval": "30s",
            "timeout": "5s",
            "start_period": "30s",
            "start_interval": "200ms",
        },
        # A machine that restarts brings the project's services back, which need it to reach their servers.
        "restart": "unless-stopped",
        "stop_grace_period": "1s",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "labels": {OWNER: owner, LABEL: attached.compose.project},
    }


def _configs(attached: Attachment) -> dict[str, Any]:
    doors = [
        _entry(node, attached.door(node), attached.hosts.get(node, node), attached.ports[node])
        for node in attached.nodes
    ]
    if attached.endpoint:
        service, _, port = attached.endpoint.rpartition(":")
        doors.append(_entry(ENDPOINT, attached.endpoint_door, service, int(port)))
    found = {DOOR: doors}
    found |= {link.service: [_entry(link.name, link.port, link.server, link.port)] for link in attached.links}
    return {name: {"content": _escaped(msgspec.json.encode(entries).decode())} for name, entries in found.items()}


def _entry(name: str, port: int, server: str, server_port: int) -> dict[str, Any]:
    return {"name": name, "listen": f"0.0.0.0:{port}", "upstream": f"{server}:{server_port}", "enabled": True}


def _escaped(text: str) -> str:
    """Return a text in which Compose replaces no variable."""
    return text.replace("$", "$$")


def write(attached: Attachment, owner: str, given: attachments.KeptAttachment, linked: dict[str, list[str]]) -> Path:
    """Write the override file and what is kept; return the override file."""
    given.attached, given.owner, given.engine_id = attached, owner, machine.facts().engine_id
    project = attached.compose.project
    write_whole(attachments.kept_file(project), msgspec.json.encode(given))
    write_whole(attachments.override_file(project), override(attached, owner, linked).encode())
    return attachments.override_file(project)


def start(attached: Attachment) -> None:
    """Add the Toxiproxies, then recreate the consumers with their links."""
    path = attachments.override_file(attached.compose.project)
    compose_call.up(attached.compose, dict.fromkeys(attached.added, 1), path)
    compose_call.up(attached.compose, {each.service: each.count for each in attached.consumers}, path)
