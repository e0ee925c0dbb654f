"""The state of a lab as data, for the output of `lab status` and its --json."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any, TypeVar

import msgspec

from replication_lab import replication
from replication_lab.lab import endpoints, managers, start_options
from replication_lab.lab.connections import NodeAddress, connections
from replication_lab.lab.disks import full
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.condition import condition_of_body
from replication_lab.model.lab.disk import Limits
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.replication.kind import Nodes
from replication_lab.world import catalogue, lab_files
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks.spindle import Spindle
from replication_lab.world.docker import images, servers, sites
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.docker.lab import Lab
from replication_lab.world.packets.link import RunningLink

Answer = TypeVar("Answer")


class NodeView(msgspec.Struct, frozen=True):
    """A node: its address, its container's state and health, its server's state of replication.

    `cluster` lists the nodes that a member sees in its cluster; it is empty elsewhere. `details` is the same state as
    data: the `resource` of a machine with a replicated disk, and the `cluster` as the machine sees it. `site` is the
    endpoint of its engine if that is another than the command's own.
    """

    name: str
    role: str
    address: str
    state: str
    health: str
    replication: str
    cluster: list[str] = []
    details: dict[str, Any] = {}
    site: str = ""


class LinkView(msgspec.Struct, frozen=True):
    """A link: its ends, the toxics on it, and its round trip measured just now, in ms.

    `enabled` is False if it is cut, None if its Toxiproxy does not answer. `use` is what crosses a link of an attached
    project.
    """

    name: str
    source: str
    target: str
    toxics: list[str]
    enabled: bool | None
    round_trip_ms: float | None
    use: str = ""


class LabView(msgspec.Struct, frozen=True):
    """A lab, with the proofs from its start (empty if it was not proved), and the connections of the running nodes.

    `settings` are the options that the user gave at its start: whether each is in force now. `warnings` are what no
    node's own state shows. `service` is where the service is, if it has an address of its own.
    """

    name: str
    topology: str
    engine: str
    version: str
    nodes: list[NodeView]
    links: list[LinkView]
    proofs: list[Proof]
    settings: list[Proof] = []
    machines: str = ""
    connections: list[NodeAddress] = []
    warnings: list[str] = []
    service: str = ""


class DiskView(msgspec.Struct, frozen=True):
    """A disk of a node's array: its current limits, and its counters since its start."""

    node: str
    level: str
    backend: str
    disk: str
    limits: Limits
    failed: bool
    reads: int
    writes: int
    flushes: int
    errors: int


class EngineView(msgspec.Struct, frozen=True):
    """A server that a node can be: its features, what it lacks and why, its topologies, whether its image is built.

    `origin` is local for an image that is built here, else vendor. `processor` is that of the image, or those that it
    can be built for. `tested` are the kept records of it, the latest first.
    """

    name: str
    about: str
    version: str
    origin: str
    source: str
    processor: str
    tested: list[catalogue.Tested]
    features: list[str]
    lacks: dict[str, str]
    topologies: list[str]
    image: str


def engines() -> list[EngineView]:
    """Return all engines, in the order of the catalogue; without Docker the state of their images is unknown."""
    return [
        EngineView(
            name=name,
            about=each.about,
            version=each.version,
            origin="vendor" if each.image else "local",
            source=each.source,
            processor=_processor(name, each),
            tested=catalogue.tested().get(name, []),
            features=sorted(each.features),
            lacks=each.lacks,
            topologies=catalogue.topologies_for(name),
            image=_image(name, each),
        )
        for name, each in catalogue.engines().items()
    ]


def _processor(name: str, engine: catalogue.Engine) -> str:
    """Return the processor that the image is for; if it is not here, those that its programs are for."""
    with suppress(LabError):
        if found := images.processor(engine.image or images.PREFIX + name):
            return found
    return " or ".join(engine.processors) or ("the vendor's" if engine.image else "this machine's")


def _image(name: str, engine: catalogue.Engine) -> str:
    try:
        if why := servers.foreign(name):
            return f"refused: {why}"
        if engine.image:
            return "pulled" if images.is_present(engine.image) else "not on this machine; pulled when first needed"
        return images.state(name)
    except LabError as error:
        return f"unknown: {error.found}"


def disks(lab: Lab, nodes: list[str] | None = None) -> list[DiskView]:
    """Return the disks of some nodes, or of all that have any."""
    kind = replication.of(lab)
    if kind.in_machines:
        launchers, level = kind.machines(), lab.topology.replication
        found = [
            (node, level, launchers[node], kind.disks(lab.topology.node(node).name)) for node in nodes or launchers
        ]
    else:
        chosen = [arrays.array(lab, node) for node in nodes] if nodes else arrays.arrays(lab).values()
        found = [(array.node, array.storage.level, array.storage.by, array.disks) for array in chosen]
    return [
        _disk(node, level, backend, name, spindle)
        for node, level, backend, disks in found
        for name, spindle in disks.items()
    ]


def _disk(node: str, level: str, backend: str, name: str, spindle: Spindle) -> DiskView:
    limits, stats = spindle.limits(), spindle.stats()
    counted = (stats.reads, stats.writes, stats.flushes, stats.errors)
    return DiskView(node, level, backend, name, limits, stats.failed, *counted)


def view(lab: Lab) -> LabView:
    """Return the state of a lab; what does not answer is shown as such, never an error."""
    state, kind = lab_files.saved_state(lab.name), replication.of(lab)
    roles, ends = kind.arrangement()
    besides = (kind.service, lambda: endpoints.told(lab), lambda: managers.told(lab))
    # Across a WAN a query is mostly waiting, so all run at the same time.
    with ThreadPoolExecutor(8) as pool:
        links = pool.map(lambda link: _link(lab, *link), ends)
        nodes = pool.map(lambda node: _node(kind, *node), roles.items())
        return LabView(
            name=lab.name,
            topology=lab.topology.name,
            engine=lab.engine,
            version=_unless_silent(lambda: kind.server(kind.written_at()).version(), "does not answer"),
            nodes=[*_applications(lab), *nodes],
            links=list(links),
            proofs=state.proofs if state else [],
            settings=start_options.current(lab),
            machines=_machines(kind),
            connections=connections(lab),
            warnings=_unless_silent(kind.warnings, []),
            service="; ".join(filter(None, (_unless_silent(told, "") for told in besides))),
        )


def client(lab: Lab, node: str) -> list[str]:
    """Return the command of a client in a node's container, or in its guest; the password is in MYSQL_PWD."""
    return replication.of(lab).client(lab.topology.node(node).name)


def _unless_silent(ask: Callable[[], Answer], silent: Answer) -> Answer:
    """Return an answer, or `silent` if there is none."""
    with suppress(LabError):
        return ask()
    return silent


def _machines(kind: Nodes) -> str:
    """Return the launcher of a lab's virtual machines, and their disks' costs; an empty string if there are none."""
    if not kind.in_machines:
        return ""
    with suppress(LabError):
        node, launcher = next(iter(kind.machines().items()))
        costs = ", ".join(disk.limits().costs() for disk in kind.disks(node).values())
        return f"virtual machines run by {launcher}; on their disks {costs}"
    return ""


def _node(kind: Nodes, name: str, role: str) -> NodeView:
    lab = kind.lab
    site = sites.of_service(lab.name, name).endpoint
    container = lab.containers.get(name)
    if container is None:
        is_silent = site in sites.silent(lab.name)
        said = "its site does not answer" if is_silent else ""
        return NodeView(name, role, "", "unknown" if is_silent else "missing", "", said, site=site)
    health = container.attrs["State"].get("Health", {}).get("Status", "")
    try:
        host, port = lab.node(name).bound(3306)
        found = kind.state(name, role)
        said = "; ".join(filter(None, (found.says, _storage(lab, name))))
        address = f"{host}:{port}"
        return NodeView(name, role, address, container.status, health, said, found.sees, found.details, site)
    except LabError as error:
        array = arrays.arrays(lab).get(name)
        said = "; ".join(filter(None, (lab.node(name).failed_check() or error.found, full(array) if array else "")))
        return NodeView(name, role, "", container.status, health, said, site=site)


def _applications(lab: Lab) -> list[NodeView]:
    """Return the services of an attached project that its links come from."""
    if not isinstance(lab, AttachedLab):
        return []
    found = []
    for consumer in lab.attached.consumers:
        containers = lab.all_containers.of(consumer.service)
        if consumer.service not in lab.attached.nodes:
            healths = {one.attrs["State"].get("Health", {}).get("Status", "") for one in containers}
            states = {one.status for one in containers} or {"missing"}
            many = f"{len(containers)} containers" if len(containers) > 1 else ""
            found.append(
                NodeView(consumer.service, "application", "", ", ".join(states), ", ".join(filter(None, healths)), many)
            )
    return found


def _storage(lab: Lab, name: str) -> str:
    array = arrays.arrays(lab).get(name)
    if array is None:
        return ""
    made, room = array.storage, array.free_bytes() >> 20
    return f"data on {made.level} of {made.members} disks made by {made.by}, {f'{room} MiB free' if room else 'FULL'}"


def _link(lab: Lab, name: str, source: str, target: str) -> LinkView:
    use = lab.use(name) if isinstance(lab, AttachedLab) else ""
    try:
        link = lab.link(name)
        proxy = link.toxiproxy.proxies()[name]
    except (LabError, KeyError):
        return LinkView(name, source, target, [], None, None, use=use)
    names, enabled = [toxic["name"] for toxic in proxy["toxics"]], proxy["enabled"]
    names += [body.name for body in link.of_packets()]
    trip = _round_trip(link) if enabled else None
    return LinkView(name, source, target, called(names), enabled, trip, use=use)


def _round_trip(link: RunningLink) -> float | None:
    with suppress(Exception), closing(RoundTrip(link)) as probe:
        found = probe.typical(3)
        return None if found is None else round(found, 1)
    return None


def called(bodies: list[str]) -> list[str]:
    """Return the toxics and conditions by number that these bodies make, then the bodies that belong to none."""
    found, left = [], set(bodies)
    for name in catalogue.toxics():
        of_toxic = {body.name for body in catalogue.toxic(name).bodies}
        if of_toxic and of_toxic <= left:
            found.append(name)
            left -= of_toxic
    for written in filter(None, map(condition_of_body, sorted(left))):
        of_toxic = {body.name for body in written.toxic().bodies}
        if of_toxic <= left:
            found.append(written.name)
            left -= of_toxic
    return found + sorted(left)
