"""Statements that a user runs on a lab's node: typed, or in files."""

from collections.abc import Callable, Sequence

from replication_lab import replication
from replication_lab.model.core.errors import LabError, OutcomeUnknown
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.progress import Tell
from replication_lab.model.lab.mysql_errors import is_definite
from replication_lab.model.lab.topology import Topology
from replication_lab.model.question.sql_text import (
    ON_ONE_COPY,
    REPLICATES,
    SqlLine,
    Statement,
    lines_of,
    refuse,
    typed_statements,
)
from replication_lab.world.docker.attached import refuse_attached
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql import script
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.server import ANSWER_SECONDS

# Of a line, in a message.
SHOWN = 60


def lines_for(file: GivenFile, topology: Topology) -> list[SqlLine]:
    """Return the lines of a file. Raise LabError if there is none, or one changes replication or a single copy only."""
    if not file.name.endswith(".sql"):
        raise LabError(f"{file.name} is not a .sql file", "FILE.sql or FILE.sql.gz", "./lab sql --help")
    refuse(file, REPLICATES, *([ON_ONE_COPY] if len(topology.nodes) > 1 else []))
    return lines_of(file)


def load(lab: Lab, node: str, file: GivenFile) -> None:
    """Run a file on a node. Raise LabError with the line of a statement that failed.

    Run nothing if the node is a read-only replica.
    """
    refuse_attached(lab, "sql --file")
    lab.topology.node(node)
    lines = lines_for(file, lab.topology)
    server, writer = lab.node(node).server(), replication.of(lab).written_at()
    if node != writer and server.settings("read_only").get("read_only") == "ON":
        raise LabError(
            f"{node} is a read-only replica: rows written there are on no other node",
            f"{writer}, where clients write",
            f"./lab sql {writer} --file FILE --lab {lab.name}",
        )
    run_lines(lab, node, lines)


def run_at_start(lab: Lab, files: Sequence[GivenFile], tell: Tell) -> None:
    """Run files on the node where clients write. Raise LabError with the line of a statement that failed."""
    for file in files:
        node = replication.of(lab).written_at()
        lines = lines_for(file, lab.topology)
        tell(f"  running {file.name} on {node}")
        run_lines(lab, node, lines)


def run_lines(lab: Lab, node: str, lines: Sequence[SqlLine]) -> None:
    """Run lines of SQL by a node's own client; LabError with the place of one that failed, or if its source changed."""
    user, password = lab.administrator(node)
    # A prepared statement or a routine may change this, too.
    sources = _sources(lab, node)
    client = replication.of(lab).client(node, terminal=False)

    def place_of(number: int | None) -> str:
        if number is None or not 1 <= number <= len(lines):
            return f"a statement of {lines[0].place.partition(' line ')[0]}"
        return f"{lines[number - 1].place}, `{lines[number - 1].text.strip(' ;')[:SHOWN]}`,"

    sql = "\n".join(line.text for line in lines)
    failed = lab.node(node).run_sql([*client, f"-u{user}", lab.database(node)], password, sql, place_of)
    if failed is None:
        if (now := _sources(lab, node)) != sources:
            dialect = lab.node(node).server().dialect
            raise LabError(
                f"{lines[0].place.partition(' line ')[0]} has changed what {node} replicates from: {now or 'nothing'}",
                REPLICATES.expected,
                f"leave that out of the file; on a node without a source `{dialect.stop}; {dialect.forget}` undoes it",
            )
        return
    what = place_of(failed.line)
    before = "the statements before it took effect, except those of an unfinished transaction"
    # The client's own errors have no number, and were sent nowhere.
    if failed.code == 0 or (failed.code is not None and is_definite(failed.code)):
        raise LabError(
            f"{what} on {node} failed: {failed.said}; {before}",
            "a successful statement",
            "correct the file, and leave out what was run",
        )
    raise OutcomeUnknown(
        f"{what} was sent to {node}, and its outcome is unknown: {failed.said}; {before}",
        "an answer",
        f"look for its effect before you run it again: ./lab sql {node}; ./lab status",
    )


def _sources(lab: Lab, node: str) -> str:
    return ", ".join(f"{each.host}:{each.port}" for each in Replica(lab.node(node).server()).channels().values())


def run_typed(lab: Lab, node: str, text: str, each: Callable[[Statement, script.Rows], None]) -> None:
    """Run typed statements on a node, as its client would; `each` gets the rows of each one."""
    found = typed_statements(text)
    if not found:
        raise LabError("-e holds no statement", "one or more statements, separated by ;", "./lab sql --help")

    def name_of(number: int, statement: Statement) -> str:
        place = f"statement {number} of {len(found)}, " if len(found) > 1 else ""
        return f"{place}`{statement.sql[:100]}`"

    script.run(lab.node(node).server(), found, name_of, ANSWER_SECONDS, each, lab.database(node))
