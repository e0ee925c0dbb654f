"""Compose projects: started, extended by an overlay, started with other servers, and found again by label."""

import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote, unquote

from docker.models.containers import Container

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab import size
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.server_name import text_of_nodes
from replication_lab.model.lab.server_version import parse_version
from replication_lab.model.lab.site import Site
from replication_lab.model.lab.topology import Topology
from replication_lab.world import catalogue, lab_files, owners, requests_made
from replication_lab.world.compose_template import companion
from replication_lab.world.disks import overlay as storage_overlay
from replication_lab.world.docker import (
    attached,
    attachments,
    compose,
    images,
    labels,
    machine,
    servers,
    site_files,
    site_images,
    sites,
    swarm,
)
from replication_lab.world.docker.containers import environment_of
from replication_lab.world.docker.lab import PASSWORDS, Lab
from replication_lab.world.docker.service import Node
from replication_lab.world.files import write_whole
from replication_lab.world.mysql.dialects import dialect_of
from replication_lab.world.mysql.features import BY_VARIABLE, features_of
from replication_lab.world.packets import large_packets
from replication_lab.world.signals import signals_held

STATE_TRANSFERS = ("mariabackup", "rsync")
# In a lab's settings: the Compose file of its topology.
TOPOLOGY = "LAB_TOPOLOGY"
# The files in the label of Compose, which separates them by commas.
FILE_NAMES = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]*)\.yaml(?=,|$)")


def start(asked: LabRequest) -> Lab:
    """Start a topology and wait until every node is healthy; on any failure remove it again and report the reason.

    `asked` must name the backends of its storage: `auto` is not resolved here.
    """
    name, topology = asked.name, asked.topology
    passwords = {user: secrets.token_urlsafe(12) for user in PASSWORDS}
    lab = Lab(name, topology, asked.engine, passwords, asked.launcher, asked.clocks_move)
    site_images.bring_all(asked)
    loads = asked.spread.services() if asked.spread else {}
    placed = site_files.services(topology, asked.sites) or loads
    write_whole(lab_files.file_of(name, lab_files.SETTINGS), _environment(lab, placed).encode())
    file = compose_file(lab)
    if catalogue.is_resized(topology.name):
        write_whole(file, catalogue.compose_text(topology.name).encode())
    overlays = {lab_files.SERVERS: servers.overlay(topology, asked.engine, file)}
    if asked.storage:
        overlays[lab_files.STORAGE] = storage_overlay.overlay(name, file, asked.storage)
    if asked.endpoint:
        overlays[lab_files.ENDPOINT] = companion(catalogue.ENDPOINTS, asked.endpoint, name, file, topology)
    if asked.manager and catalogue.manager(asked.manager.name).image:
        overlays[lab_files.MANAGER] = companion(catalogue.MANAGERS, asked.manager, name, file, topology)
    is_apart = len(set(asked.sites.values())) > 1
    overlays[lab_files.SITES] = (
        site_files.overlay(name, topology, asked.sites)
        if is_apart
        else site_files.published(topology, asked.address, asked.spread)
    )
    files = [file]
    for suffix, text in overlays.items():
        if text:
            files.append(lab_files.file_of(name, suffix))
            write_whole(files[-1], text.encode())
    profiles = ("load",) if asked.load else ()
    every = {**dict.fromkeys(site_files.names(topology), Site()), **loads} if loads else placed
    engines = {each: site.endpoint for each, site in every.items() if each not in site_files.OPTIONAL or asked.load}
    started = compose.Project(lab, tuple(files), profiles, engines, is_apart)
    try:
        with swarm.network_made(name, asked.sites):
            if arrays := storage_overlay.services_before_nodes(asked.storage):
                # Compose mounts a node's volumes when it creates the container, so the devices must exist before.
                started.up(arrays)
            started.up()
        _refuse_another_server(lab)
        if dropped := large_packets.refusal(lab.links):
            raise dropped
    except BaseException:
        with signals_held():
            lab.down()
        raise
    return lab


def compose_file(lab: Lab) -> Path:
    """Return the Compose file of a lab's topology: the lab's own one if the topology has a size of its own."""
    if catalogue.is_resized(lab.topology.name):
        return lab_files.file_of(lab.name, lab_files.TOPOLOGY)
    return catalogue.compose_file(lab.topology.name)


def _refuse_another_server(lab: Lab) -> None:
    """Raise LabError if the server of an image of others is not of the engine whose files it was started with."""
    for node, text in servers.of_nodes(lab.topology, lab.engine).items():
        server = servers.ready(text)
        if not server.image:
            continue
        running = lab.node(node).server()
        version = parse_version(running.version())
        if dialect_of(version) != catalogue.engine(server.engine).dialect:
            raise LabError(
                f"{node} runs {version}, but was started as {server.engine}",
                f"--engine {dialect_of(version)}",
                f"--image {server.image} --engine {dialect_of(version)}",
            )
        if lab.topology.replication in BY_VARIABLE and lab.topology.replication not in features_of(running):
            raise LabError(
                f"{node} runs {version} of {server.image}, which has no {lab.topology.replication}",
                f"an image whose server has what {lab.topology.name} needs",
                "./lab list engines",
            )


def extend(lab: Lab, overlay: Path, services: list[str]) -> None:
    """Start or change services of a running lab as an overlay file defines; unchanged services are not touched."""
    _running(lab, overlay).up(services)
    lab.refresh()


def exchange(lab: Lab, name: str, text: str, keep: Sequence[str]) -> None:
    """Stop a node's server, and start the server of that text (an engine, or ENGINE:VERSION) on the same data.

    The node's container is made again from another image, with the same volumes. `keep` are files that the new one gets
    before its server starts, if the old one has them: they are not on a volume. It returns when the new container runs.
    Its server may still be starting, or refuse the data.
    """
    node = lab.node(name)
    site_images.bring(node.site, [servers.image_of(text)])
    kept = {path: content for path in keep if (content := node.text_of(path))}
    lab.exchanged[name] = text
    hosts = {each: _own_host(lab.node(each)) for each in lab.exchanged}
    differing = servers.overlay(lab.topology, text_of_nodes(lab.servers_of_nodes), compose_file(lab), hosts)
    write_whole(lab_files.file_of(lab.name, lab_files.SERVERS), differing.encode())
    node.stop()
    with requests_made.noted(requests_made.EXCHANGE, name):
        _running(lab, lab_files.file_of(lab.name, lab_files.STORAGE)).make_again(name)
    lab.refresh()
    for path, content in kept.items():
        lab.node(name).put(path, content.encode())
    lab.node(name).start_again()


def _own_host(node: Node) -> str:
    """Return the name of a node's host; empty for a node in the network of its sidecar, whose name it has."""
    return str(node.container.attrs["Config"]["Hostname"]) if node.network() is node.container else ""


def _running(lab: Lab, overlay: Path) -> compose.Project:
    """Return the files of a running lab, those that there are, and an overlay."""
    suffixes = (lab_files.SERVERS, lab_files.ENDPOINT, lab_files.MANAGER, lab_files.SITES)
    written = [lab_files.file_of(lab.name, suffix) for suffix in suffixes]
    files = tuple(file for file in (compose_file(lab), *written, overlay) if file.exists())
    engines = {service: site.endpoint for service, site in sites.of(lab.name).items()}
    is_apart = len({engines.get(node.name) for node in lab.topology.nodes}) > 1
    return compose.Project(lab, files, engines=engines, nodes_apart=is_apart)


def check_state_transfer() -> None:
    """Refuse a method of full state transfer at once that a Galera node would refuse only a minute later."""
    chosen = os.environ.get("LAB_SST", STATE_TRANSFERS[0])
    if chosen not in STATE_TRANSFERS:
        raise LabError(f"LAB_SST is {chosen!r}", " or ".join(STATE_TRANSFERS), "unset LAB_SST")


@contextmanager
def exported(settings: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables within the block, for child processes, and restore the caller's afterwards."""
    before = {key: os.environ.get(key) for key in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def _environment(lab: Lab, placed: Mapping[str, Site]) -> str:
    texts = servers.of_nodes(lab.topology, lab.engine)
    server, mixes = servers.ready(texts[lab.topology.source.name]), len(set(texts.values())) > 1
    settings = {
        "COMPOSE_PROJECT_NAME": lab.name,
        # A topology of the user's own extends the services there.
        "LAB_COMPOSE": str(catalogue.COMPOSE),
        "ENGINE": server.engine,
        # Empty for the engine's own image and for different nodes, so that an exported LAB_IMAGE is not used.
        "LAB_IMAGE": "" if mixes else server.image,
        **({"LAB_CHARACTERS": servers.CHARACTERS} if mixes else {}),
        **{PASSWORDS[user]: password for user, password in lab.passwords.items()},
        "LAB_OWNER": owners.owner(),
        **({"LAB_VM": lab.launcher} if lab.launcher else {}),
        **({"LAB_CLOCK": "adjustable"} if lab.clocks_move else {}),
        # Of the account that an endpoint checks the nodes with; made of another, so that no place has to keep it.
        "LAB_ENDPOINT_PASSWORD": sha256(f"endpoint {lab.passwords['root']}".encode()).hexdigest()[:16],
        # The lab itself reads the topology's file from here: it never opens a file that a label names.
        TOPOLOGY: quote(str(compose_file(lab))),
        lab_files.ENGINE_ID: machine.facts().engine_id,
        **sites.setting(placed),
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def find(name: str | None = None) -> Lab:
    """Return the running lab of that name, or this user's only one; LabError if there is none, or several."""
    labs = all_labs()
    if name:
        if name not in labs:
            raise LabError(
                f"no lab {name!r} is running{_why_not(name)}", ", ".join(labs) or "a running lab", "./lab up"
            )
        return labs[name]
    mine = {each: lab for each, lab in labs.items() if not any(map(owners.other_user, lab.owners))}
    if not mine:
        raise LabError("no lab is running", "a running lab", "./lab up")
    if len(mine) > 1:
        raise LabError(f"{len(mine)} labs are running", f"--lab with one of {', '.join(mine)}", "./lab status")
    return next(iter(mine.values()))


def _why_not(name: str) -> str:
    """Return in words why a name in labels is not the name of a lab here; an empty string if no label has it."""
    with_sites = sites.silent(name)
    if with_sites:
        return f"; of its sites these do not answer: {', '.join(with_sites)}"
    if attachments.is_elsewhere(name):
        return "; its files are about a lab in another Docker engine (DOCKER_HOST, docker context)"
    if name in attachments.containers():
        return f"; {name} was attached from another checkout, or its file in {lab_files.FOLDER} is lost"
    return (
        f"; {name} has containers, networks or volumes, but is not a lab that is known here"
        if name in labels.owners()
        else ""
    )


def all_labs() -> dict[str, Lab]:
    """Return all labs on this machine, by name, whose topology exists in this checkout."""
    found: dict[str, list[Container]] = {}
    for container in labels.containers():
        found.setdefault(labels.project_of(container.labels), []).append(container)
    labs = {name: _lab_of(name, containers) for name, containers in sorted(found.items())}
    labs |= attached.labs()
    return {name: lab for name, lab in labs.items() if lab}


def others() -> dict[str, str]:
    """Return the projects that are removed only by their name, each with the reason in words."""
    found = {name: next(filter(None, map(owners.described, marks)), "") for name, marks in labels.owners().items()}
    elsewhere = attachments.containers().keys() - attached.labs().keys()
    found |= {name: "attached from another checkout, and restored by `lab detach` there" for name in elsewhere}
    return {name: why for name, why in sorted(found.items()) if why}


def others_shown() -> str:
    return ", ".join(f"{name} ({why})" for name, why in others().items())


def _lab_of(name: str, containers: list[Container]) -> Lab | None:
    """Return the lab of these containers; None if their labels are not those of a lab that is known here."""
    # A container that copies a volume is not created by Compose, and lacks some of its labels.
    nodes = {
        one.labels[labels.SERVICE]: one
        for one in containers
        if labels.SERVICE in one.labels and one.labels.get(labels.ENGINE_LABEL) in catalogue.engines()
    }
    known = _topology(name, next(iter(nodes.values()))) if nodes else None
    passwords = next(filter(None, map(_passwords, nodes.values())), None)
    if known is None or passwords is None:
        return None
    running = {each.name: _server_of(nodes[each.name]) for each in known.nodes if each.name in nodes}
    lab = Lab(name, known, text_of_nodes(running), passwords)
    lab.all_containers.all = {container.labels.get(labels.SERVICE, ""): [container] for container in containers}
    return lab


def _topology(name: str, node: Container) -> Topology | None:
    """Return a lab's topology: from the file that it was started with here, else by its name in this checkout.

    Labels tell only a name: a file that one names is not opened.
    """
    resized = node.labels.get(size.LABEL, "")
    if file := lab_files.settings(name).get(TOPOLOGY):
        return catalogue.topology_of(Path(unquote(file)), resized)
    named = [resized, *FILE_NAMES.findall(node.labels.get(labels.CONFIG_FILES, ""))]
    return next(filter(None, map(catalogue.topology_named, named)), None)


def _passwords(node: Container) -> dict[str, str]:
    """Return the passwords of a lab's accounts from a server's environment; an older version's are all root's.

    Empty if it has none of root's.
    """
    variables = environment_of(node)
    root = variables.get("MYSQL_ROOT_PASSWORD", "")
    return {user: variables.get(variable, root) for user, variable in PASSWORDS.items()} if root else {}


def _server_of(node: Container) -> str:
    """Return the engine of a node, or its image if that is not the engine's own."""
    image = node.attrs["Config"]["Image"]
    return node.labels[labels.ENGINE_LABEL] if image.startswith(images.PREFIX) else image
