"""The nodes' logs after a drill that failed: its lab is removed, and readers of a CI job's output have no files."""

from contextlib import suppress
from pathlib import Path

from replication_lab.model.core.errors import LabError
from replication_lab.replication.kind import Nodes
from replication_lab.world import folders
from replication_lab.world.docker.lab import Lab
from replication_lab.world.files import write_whole

LAST_LINES = 25


def last_lines(lab: Lab, nodes: Nodes) -> list[str]:
    """Return each node's view and last log lines."""
    said = []
    for name, view in nodes.looks().items():
        said.append(f"{name}: {view}; the last lines of its log:")
        with suppress(LabError):
            said += [f"  {line}" for line in lab.node(name).logs(LAST_LINES).splitlines()]
    return said


def keep(lab: Lab, nodes: Nodes, drill: str, folder: Path) -> list[str]:
    """Write every node's log to a file; return the paths."""
    kept = []
    for name in nodes.names:
        with suppress(LabError):
            path = folder / f"{drill}-{name}.log"
            write_whole(path, lab.node(name).logs("all").encode())
            kept.append(folders.from_here(path))
    return kept
