"""What a lab looks like right now, as data: what `lab status` and `lab show` print and their --json holds."""

from contextlib import closing, suppress

import msgspec

from harness.errors import LabError
from harness.probes.round_trip import RoundTrip
from harness.world import catalogue
from harness.world.compose import Lab, Proof


class NodeView(msgspec.Struct, frozen=True):
    """A node: where it listens, its container's state and health, what its server says of replication."""

    name: str
    role: str
    address: str
    state: str
    health: str
    replication: str


class LinkView(msgspec.Struct, frozen=True):
    """A link: its ends, the toxics on it, whether it is cut, and its round trip measured just now, in ms."""

    name: str
    source: str
    target: str
    toxics: list[str]
    enabled: bool
    round_trip_ms: float | None


class LabView(msgspec.Struct, frozen=True):
    """A lab, with the proofs from when it came up (empty where nobody proved it)."""

    name: str
    topology: str
    engine: str
    version: str
    nodes: list[NodeView]
    links: list[LinkView]
    proofs: list[Proof]


def view(lab: Lab) -> LabView:
    """Look at a lab; what does not answer is shown as such, never an error."""
    state = lab.state()
    return LabView(
        name=lab.name,
        topology=lab.topology.name,
        engine=lab.engine,
        version=_version(lab),
        nodes=[_node(lab, node.name, node.role) for node in lab.topology.nodes],
        links=[_link(lab, link.name) for link in lab.topology.links],
        proofs=state.proofs if state else [],
    )


def _version(lab: Lab) -> str:
    with suppress(LabError):
        return lab.server(lab.topology.source.name).version()
    return "does not answer"


def _node(lab: Lab, name: str, role: str) -> NodeView:
    container = lab.containers.get(name)
    if container is None:
        return NodeView(name, role, "", "missing", "", "")
    health = container.attrs["State"].get("Health", {}).get("Status", "")
    try:
        host, port = lab.published(name, 3306)
        return NodeView(name, role, f"{host}:{port}", container.status, health, _replication(lab, name, role))
    except LabError as error:
        return NodeView(name, role, "", container.status, health, error.found)


def _replication(lab: Lab, name: str, role: str) -> str:
    server, said = lab.server(name), []
    found = server.replication()
    if found:
        threads = "replicates" if found.healthy else f"does not replicate: {found.error or 'stopped'}"
        said.append(f"{threads} from {found.host}:{found.port}, {_lag(found.lag_seconds)}")
    if role != "replica":
        semisync = server.semisync()
        if semisync.enabled:
            counted = f"{semisync.replicas} replica(s), {semisync.acknowledged} commits acknowledged"
            waits = f"{semisync.wait_point or 'AFTER_COMMIT'}, {counted}"
            said.append(f"semi-sync {'ON' if semisync.active else 'OFF (fell back to asynchronous)'}, {waits}")
        elif role == "source":
            said.append("semi-sync off")
    return "; ".join(said)


def _lag(seconds: int | None) -> str:
    return "lag unknown" if seconds is None else f"{seconds} s behind"


def _link(lab: Lab, name: str) -> LinkView:
    link = lab.topology.link(name)
    try:
        wire = lab.wire(name)
        names = [found["name"] for found in wire.toxics()]
        enabled = wire.enabled()
    except LabError:
        return LinkView(name, link.source, link.target, [], False, None)
    return LinkView(name, link.source, link.target, called(names), enabled, _round_trip(lab, name) if enabled else None)


def _round_trip(lab: Lab, link: str) -> float | None:
    with suppress(Exception), closing(RoundTrip(lab.wire(link), lab.server(lab.topology.link(link).source))) as probe:
        found = probe.typical(3)
        return None if found is None else round(found, 1)
    return None


def called(bodies: list[str]) -> list[str]:
    """The toxics of toxics/ that these bodies make, then the bodies that belong to none."""
    found, left = [], set(bodies)
    for name in catalogue.toxics():
        of_toxic = {body.name for body in catalogue.toxic(name).bodies}
        if of_toxic and of_toxic <= left:
            found.append(name)
            left -= of_toxic
    return found + sorted(left)
