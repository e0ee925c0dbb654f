"""The failover manager of a lab: chosen, and proved to manage the lab's nodes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import permutations

from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab import companion
from replication_lab.model.lab.companion import AskedCompanion, is_own
from replication_lab.model.lab.manager import MANAGER, refuse_unmanageable, roles_in
from replication_lab.model.lab.topology import Topology
from replication_lab.replication import failover
from replication_lab.world import catalogue, clock
from replication_lab.world.docker import servers
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.manager import RunningManager

MANAGES_SECONDS = 60


def manager_of(topology: Topology, engine: str, name: str, settings: Mapping[str, str | int]) -> AskedCompanion | None:
    """Return the manager of that name, None without a name; LabError if it does not fit the topology or the engine.

    Without an engine only the topology is looked at.
    """
    if not name:
        if settings:
            raise LabError(
                f"manager.{next(iter(settings))} is set without a manager",
                f"a manager: {', '.join(catalogue.managers())}",
                "./lab up semisync --manager none",
            )
        return None
    kind = catalogue.manager(name)
    asked = map(servers.named, servers.of_nodes(topology, engine).values() if engine else ())
    refuse_unmanageable(name, kind, topology, [each.engine or each.image for each in asked])
    return companion.asked(MANAGER, name, kind.settings, settings)


def refuse_no_address(endpoint: AskedCompanion | None, manager: AskedCompanion | None) -> None:
    """Raise LabError for an endpoint that is an address which no manager moves."""
    able = catalogue.endpoint(endpoint.name).managers if endpoint else []
    if endpoint and able and (manager is None or manager.name not in able):
        raise LabError(
            f"the endpoint {endpoint.name} {f'with the manager {manager.name}' if manager else 'without a manager'}",
            f"a manager that moves it: {', '.join(able)}",
            f"./lab up semisync --manager {able[0]} --endpoint {endpoint.name}",
        )


def images(asked: AskedCompanion | None) -> list[str]:
    """Return the images of images/ that a manager needs; none for a person, or for an image of others."""
    image = catalogue.manager(asked.name).image if asked else ""
    return [image] if is_own(image) else []


def prove(lab: Lab) -> list[Proof]:
    """Let the manager of a lab act from now on, and prove that it sees the roles that the nodes have."""
    manager = lab.manager
    if manager is None:
        return []
    if manager.kind.named_links:
        names = [node.name for node in lab.topology.nodes]
        for source, target in permutations(names, 2):
            failover.link_port(lab, source, target)
    manager.manage()
    return [prove_view(lab, manager)]


def prove_view(lab: Lab, manager: RunningManager) -> Proof:
    """Prove that the manager sees the source and the replicas that there are; wait until it does."""
    roles, _ = replication.of(lab).arrangement()
    expected = {node: "source" if role == "source" else "replica" for node, role in roles.items()}

    def seen() -> dict[str, str]:
        with suppress(LabError):
            return manager.view()
        return {}

    # If it never does, the proof says what it sees.
    with suppress(LabError):
        clock.wait_until(lambda: seen() == expected, f"{manager.name} to manage {lab.name}", MANAGES_SECONDS, every=0.1)
    found = seen()
    said = ", ".join(f"{node} {role}" for node, role in sorted(found.items()))
    return Proof(f"{manager.name} manages the nodes", said or "it sees no node", found == expected)


def running(lab: Lab) -> RunningManager:
    """Return the manager that runs in a lab; LabError if none does."""
    if lab.manager is None:
        raise LabError(f"{lab.name} has no manager", "a lab with a manager", "./lab up semisync --manager NAME")
    return lab.manager


def begin_quietly(lab: Lab) -> None:
    """Let the manager of a lab begin, so that its address leads to the source, then only observe, as for a load."""
    for proof in prove(lab):
        if not proof.ok:
            said = f"{proof.what}: {proof.found}"
            raise LabError(said, "the source and each replica", f"./lab up {lab.topology.name}")
        running(lab).quiet()


@contextmanager
def quieted(lab: Lab) -> Iterator[None]:
    """Let the manager of a lab, if it has one, only observe within the block: a person changes roles."""
    manager = lab.manager
    if manager is None:
        yield
        return
    manager.quiet()
    try:
        yield
    finally:
        manager.manage()


def told(lab: Lab) -> str:
    """Return in words what the manager of a lab sees now; empty without one."""
    manager = lab.manager
    if manager is None:
        return ""
    said = manager.said()
    seen = ", ".join(f"{node} {role}" for node, role in sorted(roles_in(said).items()))
    return f"manager {manager.name}: {seen or said or 'sees no node'}"
