"""The commands' output for people: trees and tables of the views."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape as plain
from rich.table import Table
from rich.tree import Tree

from replication_lab import replication
from replication_lab.lab.connections import of_endpoint
from replication_lab.lab.status import DiskView, EngineView, LabView, LinkView, NodeView
from replication_lab.model.core.figures import three_digits
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.server_name import VENDORS
from replication_lab.model.lab.topology import EQUAL_ROLES, Topology
from replication_lab.world.docker import machine
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.service import LOOPBACK

if TYPE_CHECKING:  # one command needs each of these
    from replication_lab.lab.migrate import Migrated


def say(out: Console, what: str, **known: object) -> None:
    """Print what a macro of output.j2 says; brackets in a value are text, only the template's own are colours."""
    out.print(getattr(_sentences(), what)(**known).removesuffix("\n"))


@cache
def _sentences() -> Any:
    from replication_lab.report import templates  # only here: most commands say nothing of it, and would wait for it

    found = templates.environment("cli")
    found.finalize = lambda value: plain(str(value))
    return found.get_template("output.j2").module


def how_to_connect(out: Console, lab: Lab, toxics: Mapping[str, str]) -> None:
    """Print what can be done with a lab that came up with these toxics, by link."""
    bound = {node.name: lab.node(node.name).bound(3306) for node in lab.topology.nodes}
    addresses = ", ".join(f"{node} {host}:{port}" for node, (host, port) in bound.items())
    if lab.endpoint:
        addresses = f"{', '.join(f'{each.node} {each.host}:{each.port}' for each in of_endpoint(lab))}, {addresses}"
    if not machine.is_near() and any(host.startswith(LOOPBACK) for host, _ in bound.values()):
        addresses += " (on the engine's machine; from here: ./lab sql NODE)"
    kind = replication.of(lab)
    node = kind.written_at()
    user, password = lab.application(node)
    link = next((each.name for each in lab.topology.links), "")
    say(
        out,
        "connect",
        lab=lab.name,
        addresses=addresses,
        user=user,
        password=password,
        node=node,
        service=kind.moves_service,
        link=link,
        toxic=toxics.get(link, "none"),
        measure=_measure(lab.topology),
    )


def _measure(topology: Topology) -> str:
    """Return the command that measures next on this topology: an experiment, or its drills if there is none."""
    experiment = "raid_replica" if topology.storage else replication.kind_of(topology).experiment
    return f"run {experiment}" if experiment else f"drill {topology.name}"


def disks(out: Console, found: Iterable[DiskView]) -> None:
    table = Table(
        "node", "array", "disk", "reads/s", "writes/s", "flush", "state", "reads", "writes", "errors", box=None
    )
    for one in found:
        limits = [str(figure or "any") for figure in (one.limits.read_iops, one.limits.write_iops)]
        array, state = f"{one.level} by {one.backend}", "FAILED" if one.failed else "good"
        done = [str(figure) for figure in (one.reads, one.writes, one.errors)]
        table.add_row(one.node, array, one.disk, *limits, f"{one.limits.flush_us / 1000:g} ms", state, *done)
    out.print(table)


def proofs(out: Console, found: Iterable[Proof]) -> None:
    for proof in found:
        out.print(f"{'verified' if proof.ok else 'FAILED'}: {proof.what}: {proof.found}", markup=False)


def after_acting(out: Console, lab: Lab, state: str, nodes: Iterable[str]) -> None:
    """Print where nodes that run are reached now, since a start gives them other ports; else how to undo it."""
    if state == "running":
        for node in nodes:
            out.print(f"{node}: {':'.join(map(str, lab.node(node).bound(3306)))}", markup=False)
    else:
        out.print(f"to undo: ./lab start {' '.join(nodes)} --lab {lab.name}", markup=False)


def migrated(out: Console, done: "Migrated") -> None:
    """Print each step's seconds, and the lag before and after."""
    table = Table("step", "s", box=None)
    for step, seconds in done.seconds.items():
        table.add_row(step, f"{seconds:.1f}")
    out.print(table)
    say(out, "migrated", done=done)


def labs(out: Console, found: Sequence[LabView]) -> None:
    """Print each lab as a tree, with an empty line between two."""
    if not found:
        out.print("no lab is running; start one with: ./lab up")
    for number, lab in enumerate(found):
        if number:
            out.print()
        tree(out, lab)


def tree(out: Console, lab: LabView) -> None:
    """Print the topology from its source down: each link under the node that writes it, each node under its link.

    In a cluster or a pair of machines no node is above another: each is printed with the links that it dials.
    """
    machines = f"; {lab.machines}" if lab.machines else ""
    root = Tree(f"[bold]{lab.name}[/]  {lab.topology}, {lab.engine} {lab.version}{machines}")
    nodes = {node.name: node for node in lab.nodes if node.role not in EQUAL_ROLES}
    targets = {link.target for link in lab.links}
    for node in lab.nodes:
        if node.role in EQUAL_ROLES:
            _grow(root, node, {}, lab.links)
        elif node.name not in targets:
            _grow(root, node, nodes, lab.links)
    # Nodes that follow each other have no first one.
    while nodes:
        _grow(root, next(iter(nodes.values())), nodes, lab.links)
    for setting in lab.settings:
        force = "verified" if setting.ok else f"[red]not in force: {plain(setting.found)}[/]"
        root.add(f"{plain(setting.what)}  {force}")
    if lab.service:
        root.add(plain(lab.service))
    for warning in lab.warnings:
        root.add(f"[red]{plain(warning)}[/]")
    out.print(root)


def _grow(parent: Tree, node: NodeView, nodes: dict[str, NodeView], links: list[LinkView]) -> None:
    """Print a node with its links, and those of `nodes` that are below it; take them out of `nodes`."""
    nodes.pop(node.name, None)
    branch = parent.add(_node(node))
    for link in links:
        if link.source == node.name:
            below = branch.add(_link(link))
            if link.target in nodes:
                _grow(below, nodes[link.target], nodes, links)


def _node(node: NodeView) -> str:
    # An application may have no health check.
    is_good = node.health == "healthy" or (node.role == "application" and node.state == "running" and not node.health)
    colour = "green" if is_good else "red"
    title = (
        f"[bold]{node.name}[/] ({node.role})  [{colour}]{node.state}, {node.health or 'no health'}[/]  {node.address}"
        f"{plain(f' at {node.site}') if node.site else ''}"
    )
    return f"{title}\n{plain(node.replication)}" if node.replication else title


def _link(link: LinkView) -> str:
    toxics = ", ".join(link.toxics) or "no toxic"
    state = "[red]its Toxiproxy does not answer[/]" if link.enabled is None else f"[yellow]{toxics}[/]  {_trip(link)}"
    return f"link {link.name}  {state}{f'; {plain(link.use)}' if link.use else ''}"


def _trip(link: LinkView) -> str:
    if not link.enabled:
        return "[red]cut[/]"
    return "no reply" if link.round_trip_ms is None else f"round trip {three_digits(link.round_trip_ms)} ms"


def engines(out: Console, known: Iterable[EngineView]) -> None:
    table = Table("engine", "version", "source", "processor", "features", "tested", "image", box=None, pad_edge=False)
    for each in known:
        source = f"{each.origin}: {each.source}"
        table.add_row(
            each.name, each.version, source, each.processor, ", ".join(each.features), _tested(each), each.image
        )
    out.print(table)
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in known:
        for feature, why in each.lacks.items():
            reasons.setdefault((feature, why), []).append(each.name)
    say(out, "engines", lacking=reasons, vendors=VENDORS)


def _tested(engine: EngineView) -> str:
    """Return when an engine was last tested, and how often; `--json` has each record."""
    if not engine.tested:
        return "no record kept"
    last = engine.tested[0]
    count = len(engine.tested)
    return f"{last.day}, {last.version} on {last.processor}: {count} record{'s' if count > 1 else ''}"


def rows(out: Console, found: list[dict[str, Any]], upright: bool = False) -> None:
    """Print rows as a table, or `upright`: a line for each column."""
    if not found:
        out.print("no rows")
        return
    if upright:
        width = max(map(len, found[0]))
        for number, row in enumerate(found, 1):
            out.print(f"row {number}", markup=False)
            for name, value in row.items():
                out.print(f"  {name:>{width}}: {value}", markup=False, soft_wrap=True)
        return
    table = Table(*(plain(str(heading)) for heading in found[0]), box=None, pad_edge=False)
    for row in found:
        table.add_row(*(plain(str(value)) for value in row.values()))
    out.print(table)


def findings(out: Console, found: Sequence[Any]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in found:
        table.add_row("[green]ok[/]" if finding.ok else "[red]no[/]", finding.what, plain(finding.found))
        if finding.next_step and "\n" not in finding.next_step:
            table.add_row("", "", f"next: {plain(finding.next_step)}")
    out.print(table)
    for finding in found:
        if "\n" in finding.next_step:
            # Commands are copied from here: no column may break them.
            lines = finding.next_step.replace("\n", "\n  ")
            out.print(f"{finding.what}, next: {lines}", markup=False, soft_wrap=True)
