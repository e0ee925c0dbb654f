"""What the commands print: trees and tables of the views, for people."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape as plain
from rich.table import Table
from rich.tree import Tree

from harness.toxic import Toxic
from harness.views import LabView, LinkView, NodeView
from harness.world.compose import Lab

__all__ = ["findings", "how_to_connect", "plain", "rows", "status", "toxics", "tree"]

CONNECT = """
{name} is up.
  connect   {addresses}
            user lab or root, password {password}
  look      ./lab show
  ask       ./lab sql source -e "SELECT VERSION()"
  break     ./lab toxic {link} wan-200ms      and heal: ./lab toxic {link} {toxic}
  measure   ./lab run semisync_wan
  end       ./lab down {name}
"""


def how_to_connect(out: Console, lab: Lab) -> None:
    addresses = ", ".join(
        f"{node.name} {':'.join(map(str, lab.published(node.name, 3306)))}" for node in lab.topology.nodes
    )
    link = lab.topology.links[0].name
    text = CONNECT.format(
        name=lab.name,
        addresses=addresses,
        password=lab.password,
        link=link,
        toxic=lab.topology.toxics.get(link, "none"),
    )
    out.print(text.strip(), markup=False)


def tree(out: Console, lab: LabView) -> None:
    """The topology from its source down: each link under the node that writes it, each node under its link."""
    root = Tree(f"[bold]{lab.name}[/]  {lab.topology}, {lab.engine} {lab.version}")
    nodes = {node.name: node for node in lab.nodes}
    targets = {link.target for link in lab.links}
    for node in lab.nodes:
        if node.name not in targets:
            _grow(root, node, nodes, lab.links)
    out.print(root)


def _grow(parent: Tree, node: NodeView, nodes: dict[str, NodeView], links: list[LinkView]) -> None:
    branch = parent.add(_node(node))
    for link in links:
        if link.source == node.name:
            _grow(branch.add(_link(link)), nodes[link.target], nodes, links)


def _node(node: NodeView) -> str:
    colour = "green" if node.health == "healthy" else "red"
    title = (
        f"[bold]{node.name}[/] ({node.role})  [{colour}]{node.state}, {node.health or 'no health'}[/]  {node.address}"
    )
    return f"{title}\n{plain(node.replication)}" if node.replication else title


def _link(link: LinkView) -> str:
    toxics = ", ".join(link.toxics) or "no toxic"
    return f"link {link.name}  [yellow]{toxics}[/]  {_trip(link)}"


def _trip(link: LinkView) -> str:
    if not link.enabled:
        return "[red]cut[/]"
    return "nothing comes back" if link.round_trip_ms is None else f"round trip {link.round_trip_ms:.1f} ms"


def status(out: Console, labs: list[LabView]) -> None:
    if not labs:
        out.print("no lab is up; start one with: make lab-up")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("lab", "engine", "node or link", "state", "what it says"):
        table.add_column(heading)
    for lab in labs:
        for node in lab.nodes:
            table.add_row(
                lab.name,
                lab.engine,
                f"{node.name} {node.address}",
                f"{node.state} {node.health}",
                plain(node.replication),
            )
        for link in lab.links:
            table.add_row(lab.name, "", link.name, ", ".join(link.toxics) or "no toxic", _trip(link))
    out.print(table)


def toxics(out: Console, known: Iterable[Toxic]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for toxic in known:
        table.add_row(toxic.name, toxic.about)
    out.print(table)


def rows(out: Console, found: list[dict[str, Any]]) -> None:
    if not found:
        out.print("no rows")
        return
    table = Table(box=None, pad_edge=False)
    for heading in found[0]:
        table.add_column(plain(str(heading)))
    for row in found:
        table.add_row(*(plain(str(value)) for value in row.values()))
    out.print(table)


def findings(out: Console, found: Iterable[Any]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in found:
        table.add_row("[green]ok[/]" if finding.ok else "[red]no[/]", finding.what, plain(finding.found))
        if finding.next_step:
            table.add_row("", "", f"next: {plain(finding.next_step)}")
    out.print(table)
