"""Files of SQL that a user runs on a lab's node."""

from collections.abc import Sequence

from replication_lab import replication
from replication_lab.model.errors import LabError
from replication_lab.model.given_file import GivenFile
from replication_lab.model.load import refuse_for_one_copy
from replication_lab.model.progress import Tell
from replication_lab.model.sql_text import Statement, statements
from replication_lab.model.topology import Topology
from replication_lab.world.docker.attached import refuse_attached
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql import script


def statements_for(file: GivenFile, topology: Topology) -> list[Statement]:
    """Return the statements of a file. Raise LabError if there is none, or if one would change only a single copy."""
    if not file.name.endswith(".sql"):
        raise LabError(f"{file.name} is not a .sql file", "FILE.sql or FILE.sql.gz", "./lab load --help")
    found = statements(file)
    if not found:
        raise LabError(f"{file.name} holds no statement", "statements that end with ;")
    for statement in found if len(topology.nodes) > 1 else []:
        refuse_for_one_copy(file, statement)
    return found


def load(lab: Lab, node: str, file: GivenFile) -> int:
    """Run a file's statements on a node; return their number. Raise LabError with the line of one that failed.

    Run nothing if the file cannot be read to its end, or the node is a read-only replica.
    """
    refuse_attached(lab, "load")
    lab.topology.node(node)
    found = statements_for(file, lab.topology)
    server, writer = lab.node(node).server(), replication.of(lab).written_at()
    if node != writer and server.settings("read_only").get("read_only") == "ON":
        raise LabError(
            f"{node} is a read-only replica: rows written there are on no other node",
            f"{writer}, where clients write",
            f"./lab load {writer} FILE --lab {lab.name}",
        )
    try:
        script.run(server, file.name, found)
    except LabError as error:
        raise LabError(
            f"{error.found}; the statements before it took effect, except those of an unfinished transaction",
            error.expected,
            f"correct {file.name}, and leave out what was run",
        ) from error
    return len(found)


def run_at_start(lab: Lab, files: Sequence[GivenFile], tell: Tell) -> None:
    """Run files on the node where clients write. Raise LabError with the line of a statement that failed."""
    for file in files:
        node = replication.of(lab).written_at()
        found = statements_for(file, lab.topology)
        tell(f"  running {file.name} on {node} ({len(found)} statements)")
        script.run(lab.node(node).server(), file.name, found)
