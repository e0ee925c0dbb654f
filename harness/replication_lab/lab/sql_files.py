"""Statements that a user runs on a lab's node: typed, or in files."""

from collections.abc import Callable, Sequence

from replication_lab import replication
from replication_lab.model.core.errors import LabError, OutcomeUnknown
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.progress import Tell
from replication_lab.model.lab.topology import Topology
from replication_lab.model.question.sql_text import Statement, statements, typed_statements
from replication_lab.model.question.validation import refuse_for_one_copy
from replication_lab.world.docker.attached import refuse_attached
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql import script
from replication_lab.world.mysql.server import ANSWER_SECONDS


def statements_for(file: GivenFile, topology: Topology) -> list[Statement]:
    """Return the statements of a file. Raise LabError if there is none, or if one would change only a single copy."""
    if not file.name.endswith(".sql"):
        raise LabError(f"{file.name} is not a .sql file", "FILE.sql or FILE.sql.gz", "./lab sql --help")
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
    refuse_attached(lab, "sql --file")
    lab.topology.node(node)
    found = statements_for(file, lab.topology)
    server, writer = lab.node(node).server(), replication.of(lab).written_at()
    if node != writer and server.settings("read_only").get("read_only") == "ON":
        raise LabError(
            f"{node} is a read-only replica: rows written there are on no other node",
            f"{writer}, where clients write",
            f"./lab sql {writer} --file FILE --lab {lab.name}",
        )
    try:
        script.run_file(server, file.name, found)
    except LabError as error:
        error.found += "; the statements before it took effect, except those of an unfinished transaction"
        if not isinstance(error, OutcomeUnknown):
            error.next_step = f"correct {file.name}, and leave out what was run"
        raise
    return len(found)


def run_at_start(lab: Lab, files: Sequence[GivenFile], tell: Tell) -> None:
    """Run files on the node where clients write. Raise LabError with the line of a statement that failed."""
    for file in files:
        node = replication.of(lab).written_at()
        found = statements_for(file, lab.topology)
        tell(f"  running {file.name} on {node} ({len(found)} statements)")
        script.run_file(lab.node(node).server(), file.name, found)


def run_typed(lab: Lab, node: str, text: str, each: Callable[[Statement, script.Rows], None]) -> int:
    """Run typed statements on a node, as its client would; return their number. `each` gets the rows of each one."""
    found = typed_statements(text)
    if not found:
        raise LabError("-e holds no statement", "one or more statements, separated by ;", "./lab sql --help")

    def name_of(number: int, statement: Statement) -> str:
        place = f"statement {number} of {len(found)}, " if len(found) > 1 else ""
        return f"{place}`{statement.sql[:100]}`"

    script.run(lab.node(node).server(), found, name_of, ANSWER_SECONDS, each, lab.database(node))
    return len(found)
