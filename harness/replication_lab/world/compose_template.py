"""Compose overlays that are templates, because they depend on a topology's nodes."""

from pathlib import Path

from replication_lab.model.lab.companion import AskedCompanion
from replication_lab.model.lab.topology import Topology


def filled(template: Path, **values: object) -> str:
    """Return the Compose file of a template; the filter `placed` makes a path of the name of a file beside it."""
    import jinja2  # only here: most labs have no such overlay, and each command would wait for it

    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
    environment.filters["placed"] = lambda name: quoted(str(template.parent / name))
    return environment.from_string(template.read_text()).render(**values)


def companion(folder: Path, asked: AskedCompanion, lab: str, compose_file: Path, topology: Topology) -> str:
    """Return the Compose file that adds an endpoint or a manager, a template of that folder, to a topology.

    `ports` are those at Toxiproxy by which a node replicates from each other one, {node: {other: port}}.
    """
    nodes = [node.name for node in topology.nodes]
    return filled(
        folder / f"{asked.name}.yaml.j2",
        lab=lab,
        topology=compose_file,
        replication=topology.replication,
        nodes=nodes,
        ports={node: {peer: topology.port_between(peer, node) for peer in nodes if peer != node} for node in nodes},
        source=topology.source.name,
        **dict(asked.settings),
    )


def quoted(text: str) -> str:
    """Return a text as a YAML scalar in which Compose replaces nothing: a checkout may be anywhere."""
    return "'{}'".format(text.replace("'", "''").replace("$", "$$"))
