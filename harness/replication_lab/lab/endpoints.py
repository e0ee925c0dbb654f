"""The endpoint in front of a lab's nodes: chosen, proved, and what it adds to a commit measured."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from statistics import median

from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab import companion
from replication_lab.model.lab.companion import AskedCompanion
from replication_lab.model.lab.endpoint import ENDPOINT
from replication_lab.model.lab.topology import Topology
from replication_lab.probes.commit_latency import CommitLatency
from replication_lab.world import catalogue, clock
from replication_lab.world.docker.endpoint import ANSWER_SECONDS, RunningEndpoint
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.client import answered_by

# Pairs of commits, one to the node itself and one through the endpoint; fewer if the time is over.
PAIRS, FEWEST, SECONDS = 200, 10, 5.0
# 95 % of the interval between two order statistics: n/2 ± this many times √n.
HALF_WIDTH = 0.98
SETTLED_SECONDS = 60


def endpoint_of(topology: Topology, name: str, settings: Mapping[str, str | int]) -> AskedCompanion | None:
    """Return the endpoint of that name, or the topology's own if the name is empty; None if neither names one."""
    name = name or topology.endpoint
    if not name:
        if settings:
            raise LabError(
                f"endpoint.{next(iter(settings))} is set without an endpoint",
                f"an endpoint: {', '.join(catalogue.endpoints())}",
                "./lab up --endpoint haproxy",
            )
        return None
    if replication.kind_of(topology).in_machines:
        raise LabError(
            f"an endpoint in front of {topology.name}, whose machines have an address that moves",
            "a topology whose servers run in containers",
            "./lab up semisync --endpoint haproxy",
        )
    return companion.asked(ENDPOINT, name, catalogue.endpoint(name).settings, settings)


def prove(lab: Lab) -> list[Proof]:
    """Prove where the endpoint of a lab leads; none without an endpoint. What it adds to a commit is measured as well.

    The links should have no conditions: a commit that waits for a WAN hides the difference.
    """
    endpoint = lab.endpoint
    if endpoint is None:
        return []
    reads = [_prove_reads(lab, endpoint)] if endpoint.kind.checks else []
    return [_prove_writes(lab, endpoint), *reads, _prove_cost(lab, endpoint)]


def told(lab: Lab) -> str:
    """Return in words where the endpoint of a lab leads now; empty without one that tells it."""
    endpoint = lab.endpoint
    if endpoint is None or not endpoint.kind.states:
        return ""
    address = f"endpoint {endpoint.name} {':'.join(map(str, endpoint.service.bound(endpoint.kind.writes)))}"
    if not endpoint.kind.checks:
        server = answered_by(endpoint.server()).server
        return f"{address}: {servers_of(lab).get(server, server)}"
    up = [
        f"{side} {', '.join(node for node, state in nodes.items() if state == 'UP') or 'no node'}"
        for side, nodes in endpoint.states().items()
    ]
    return f"{address}: {'; '.join(up)}"


def servers_of(lab: Lab) -> dict[str, str]:
    """Return the node of each server that answers, by what an answer through the endpoint tells of it."""
    found = {}
    for node in lab.topology.nodes:
        found[answered_by(lab.node(node.name).server().another()).server] = node.name
    return found


def crossing(lab: Lab, clients: int) -> Callable[[], list[Proof]]:
    """Return what proves, after a load, that its clients connected through the endpoint; nothing without one."""
    endpoint = lab.endpoint
    if endpoint is None or not endpoint.kind.states:
        return list
    before = endpoint.connections()

    def proofs() -> list[Proof]:
        new = endpoint.connections() - before
        what = f"the clients of the load connected through {endpoint.name}"
        return [Proof(what, f"{new} new connections", new >= clients, f"at least {clients}")]

    return proofs


def _wait_for(is_so: Callable[[], object], what: str) -> None:
    """Wait until an endpoint says so; on a busy machine it may be late, or silent. Its proof tells if it never does."""
    with suppress(LabError):
        clock.wait_until(lambda: clock.soon(is_so, ANSWER_SECONDS), what, SETTLED_SECONDS, every=0.1)


def _prove_writes(lab: Lab, endpoint: RunningEndpoint) -> Proof:
    writer, by_server = replication.of(lab).written_at(), servers_of(lab)
    _wait_for(lambda: answered_by(endpoint.server()), f"{endpoint.name} to answer")
    found = answered_by(endpoint.server())
    node = by_server.get(found.server, found.server)
    way = "" if endpoint.is_client(found.client) else f" from {found.client}"
    # Of equal nodes it may have chosen another one.
    fits = node == writer or replication.kind_of(lab.topology).writes_anywhere
    return Proof(f"writes through {endpoint.name} reach a node that takes them", f"{node}{way}", fits and not way)


def _prove_reads(lab: Lab, endpoint: RunningEndpoint) -> Proof:
    names = {node.name for node in lab.topology.nodes}

    def all_up() -> bool:
        return {node for node, state in endpoint.states()["reads"].items() if state == "UP"} == names

    _wait_for(all_up, f"{endpoint.name} to read from {', '.join(sorted(names))}")
    found = endpoint.states()["reads"]
    said = ", ".join(f"{node} {state}" for node, state in found.items())
    return Proof(f"{endpoint.name} reads from every node", said, all_up())


def _prove_cost(lab: Lab, endpoint: RunningEndpoint) -> Proof:
    """Measure pairs of commits in turn: directly on the node that the endpoint writes to, and through the endpoint."""
    through = endpoint.server(near=True)
    node = servers_of(lab)[answered_by(through).server]
    direct = lab.node(node).server().as_application().at(lab.node(node).direct_address(3306))
    ways = CommitLatency(direct), CommitLatency(through)
    pairs: list[tuple[float, float]] = []
    began = clock.timer()
    while len(pairs) < FEWEST or (len(pairs) < PAIRS and clock.timer() - began < SECONDS):
        times = {which: ways[which].commits(1)[0] for which in ((0, 1) if len(pairs) % 2 else (1, 0))}
        pairs.append((times[0], times[1]))
    added = sorted(after - before for before, after in pairs)
    half = HALF_WIDTH * len(added) ** 0.5
    low, high = added[max(0, int(len(added) / 2 - half))], added[min(len(added) - 1, int(len(added) / 2 + half))]
    said = (
        f"{median(added):.2f} ms (95 % interval of the median {low:.2f} to {high:.2f} ms, {len(added)} pairs; "
        f"directly {median(each for each, _ in pairs):.2f} ms)"
    )
    return Proof(f"what {endpoint.name} adds to a commit on {node}, without conditions on links", said, True)
