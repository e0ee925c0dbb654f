"""How a lab was before it was viewed, kept in a file: if the view is killed, the next command restores the lab."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import msgspec

from replication_lab import faults, replication
from replication_lab.faults.toxic_calibration import exchange
from replication_lab.lab.disks import by_node
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.progress import Tell
from replication_lab.model.lab.disk import Limits
from replication_lab.model.lab.toxic import ToxicBody
from replication_lab.workloads.ledger import TABLE
from replication_lab.world import clock, lab_files, owners, signals
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import leftovers, machine, project
from replication_lab.world.docker.lab import Lab
from replication_lab.world.files import read_own_as, write_whole

# The states of a container from which a fault's recovery brings a node back.
RECOVERS = {"paused": "pause", "exited": "stop", "dead": "stop"}


class Before(msgspec.Struct):
    """A lab as it was before a view: the toxics of each link, the links that were on, the nodes that ran.

    `disks` has the limits of each node's emulated disks. `owner` is the process that views, `engine_id` the Docker
    engine; `at` is when it began, in seconds since boot.
    """

    owner: str
    at: float
    toxics: dict[str, list[ToxicBody]]
    on: list[str]
    running: list[str]
    disks: dict[str, dict[str, Limits]]
    writes: bool
    engine_id: str = ""

    def began(self) -> tuple[bool, float]:
        """Return what puts views in the order of their beginnings: those before the last boot come first."""
        return owners.is_of_this_boot(self.owner), self.at


@contextmanager
def kept(lab: Lab, writes: bool) -> Iterator[None]:
    """Keep for the block how a lab was before it; `writes` is whether clients write to the ledger's table."""
    links = {link.name: lab.link(link.name) for link in lab.topology.links}
    before = Before(
        owner=owners.owner(),
        at=clock.timer(),
        toxics={name: link.toxics() for name, link in links.items()},
        on=[name for name, link in links.items() if link.enabled()],
        running=[node.name for node in lab.topology.nodes if lab.node(node.name).state()[0] == "running"],
        disks={node: {name: disk.limits() for name, disk in found.items()} for node, found in by_node(lab).items()},
        writes=writes,
        engine_id=machine.facts().engine_id,
    )
    path = lab_files.view_of(lab.name)
    write_whole(path, msgspec.json.encode(before))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def restore(tell: Tell) -> None:
    """Restore each lab whose view was killed, and tell what was restored, and what could not be.

    Without a Docker engine no lab runs: a later command looks again.
    """
    try:
        docker_engine.client()
    except LabError:
        return
    for name in sorted({path.name.partition(".")[0] for path in lab_files.views()}):
        with signals.signals_held():
            _restore(name, tell)


def _restore(name: str, tell: Tell) -> None:
    paths = lab_files.views(name)
    found = [before for path in paths if (before := read_own_as(path, Before)) and _is_killed(before)]
    if len(found) < len(paths):
        # Another view may still show this lab: also one of another user or version, whose file cannot be read. Once
        # it has ended, the next command restores the lab.
        return
    lab = project.all_labs().get(name)
    # A lab that the killed command started itself is removed, not restored.
    if lab and found and name not in leftovers.left_behind():
        first = min(found, key=Before.began)
        # Links first, which the nodes need.
        done = [
            *(_done(tell, _link, lab, link, first) for link in first.toxics),
            *(_done(tell, _node, lab, node) for node in first.running),
            *(_done(tell, _disks, lab, node, limits) for node, limits in first.disks.items()),
            *([_done(tell, _ledger, lab)] if first.writes else []),
        ]
        if changed := ", ".join(filter(None, done)):
            tell(f"restored {name}, which a killed live view had left changed: {changed}")
    for path in paths:
        path.unlink(missing_ok=True)


def _is_killed(before: Before) -> bool:
    return owners.is_dead(before.owner) and not machine.is_another(before.engine_id)


def _done(tell: Tell, step: Callable[..., str], *given: Any) -> str:
    """Do a step; return what it changed, nothing if it failed."""
    try:
        return step(*given)
    except LabError as error:
        tell(f"warning: could not undo a change that a killed live view had left: {error.found}")
        return ""


def _link(lab: Lab, name: str, before: Before) -> str:
    link = lab.link(name)
    same = link.toxics() == before.toxics[name]
    exchange(link, before.toxics[name])
    off = name in before.on and not link.enabled()
    if off:
        link.enable()
    return "" if same and not off else f"link {name}"


def _node(lab: Lab, name: str) -> str:
    state = lab.node(name).state()[0]
    if state not in RECOVERS:
        return ""
    fault = faults.made(lab, RECOVERS[state], [name])
    with closing(fault):
        fault.recover()
    return f"node {name} (was {state})"


def _disks(lab: Lab, node: str, before: Mapping[str, Limits]) -> str:
    disks = by_node(lab)[node]
    changed = [name for name, limits in before.items() if disks[name].limits() != limits]
    for name in changed:
        disks[name].limit(before[name])
    return f"disks of {node}" if changed else ""


def _ledger(lab: Lab) -> str:
    kind = replication.of(lab)
    kind.server(kind.written_at()).execute(f"DROP TABLE IF EXISTS {TABLE}")
    return ""
