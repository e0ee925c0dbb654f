"""The load that a user's question asks for, and the tables and rows that it begins with."""

from dataclasses import dataclass, replace

from replication_lab.lab import sql_files
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.question.dump import lines_of
from replication_lab.model.question.load import INSERTS, SYSBENCH
from replication_lab.model.question.question import Question
from replication_lab.model.question.registers import registers
from replication_lab.model.question.sql_load import transactions
from replication_lab.replication.following import followed
from replication_lab.workloads.checked_transactions import CheckedTransactions
from replication_lab.workloads.inserts import TABLE, Inserted, Inserts
from replication_lab.workloads.own_command import OwnCommand
from replication_lab.workloads.sql_transactions import quoted, script_of
from replication_lab.workloads.timed_script import TimedScript
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.binary_log import BinaryLog

Load = Inserts | TimedScript | OwnCommand
AnyLoad = Load | CheckedTransactions
# That of the container load, built like every image of the lab.
OWN_IMAGE = "replication-lab/load"
ROWS = 10_000
# The published inserts at a rate.
PACED_INSERTS = f"""{script_of(transactions(GivenFile(INSERTS, "INSERT INTO foo (text) VALUES ('{text:8}');")))}
function prepare()
  sysbench.sql.driver():connect():query({quoted(TABLE)})
end
"""


def load_of(question: Question) -> AnyLoad:
    """Return the load for one client; a case has its own number of clients."""
    workload = question.workload
    if question.check:
        return CheckedTransactions(registers(question.transactions))
    if question.load_command is not None:
        # A case has its own rate; that it has one is enough to try whether the command obeys it.
        return OwnCommand(question.load_command, question.load_image or OWN_IMAGE, rate=float(question.is_paced))
    if workload == INSERTS:
        return TimedScript(PACED_INSERTS) if question.is_paced else Inserts()
    if isinstance(workload, GivenFile):
        if not workload.name.endswith(".sql"):
            given = tuple(f"--{name}={value}" for name, value in question.script_options.items())
            return TimedScript(workload.text, given, modules=workload.beside)
        every = transactions(workload)
        return TimedScript(script_of(every), kinds=len(every))
    return TimedScript(
        f'require("{workload}")\nevent_writes = {str(SYSBENCH[workload]).lower()}\n',
        (
            "--tables=1",
            f"--table-size={ROWS}",
            "--rand-type=uniform",
            # A cluster's automatic numbers have gaps, and an update of a missing row would change nothing.
            f"--auto-inc={'on' if workload == 'oltp_insert' else 'off'}",
        ),
    )


def prepare(question: Question, load: AnyLoad, lab: Lab) -> None:
    """Make the user's tables, those of the load, and the user's rows; try the load out.

    Raise LabError for a statement that failed.
    """
    source = lab.topology.source.name
    _run(lab, source, question.schema)
    load.prepare(lab)
    _run(lab, source, question.init)
    if not isinstance(load, Inserts):
        load.try_out(lab)


def make_tables(question: Question, lab: Lab, writer: str) -> None:
    """Make the user's tables and rows alone, for clients that are not those of the load."""
    _run(lab, writer, question.schema)
    _run(lab, writer, question.init)


def _run(lab: Lab, node: str, file: GivenFile | None) -> None:
    if file:
        sql_files.run_lines(lab, node, lines_of(file))


@dataclass(frozen=True)
class WithLag:
    """A load that ends when each replica has applied everything; the additional time is its lag."""

    load: Load

    def run(self, lab: Lab, seed: int) -> Inserted:
        """Run the load; LabError also when a replica does not catch up."""
        found = self.load.run(lab, seed)
        ended = clock.timer()
        for replica, server in followed(lab):
            replica.wait_for(BinaryLog(server).position())
        return replace(found, lag_s=clock.timer() - ended)
