"""Are lines found that no server's log may hold?"""

import msgspec
import pytest
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.drill_result import judge
from replication_lab.probes import forbidden_logs
from replication_lab.report.drill_text import text
from replication_lab.world import catalogue

from tests.fakes.parts import LabOfNames
from tests.unit.synthetic_drill import HISTORY, evidence, summed_up


class LoggingLab(LabOfNames):
    """A lab of one node whose log grows."""

    topology = catalogue.topology("single")

    def __init__(self):
        self.text = "an Assertion failure of yesterday\n"

    def logs(self, name, lines):
        return self.text


def test_what_no_log_may_hold_is_found_from_the_drills_beginning_on():
    """With its name and its line; what was there before is not this drill's."""
    lab = LoggingLab()
    watch, tolerant = forbidden_logs.LogWatch(lab), forbidden_logs.LogWatch(lab, ["assertion"])
    assert watch.found() == []
    lab.text += "InnoDB: Assertion failure in file buf0buf.cc line 7\nready for connections\n"

    assert watch.found() == ["server: assertion: InnoDB: Assertion failure in file buf0buf.cc line 7"]
    assert tolerant.found() == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("240101 [ERROR] mysqld got signal 11 ;", "crash"),
        ("[ERROR] Slave I/O: Got fatal error 1236 from master when reading data", "fatal-from-source"),
        ("[ERROR] Got fatal error 1236 from source when reading data from binary log", "fatal-from-source"),
        ("The slave I/O thread stops because master and slave have equal MySQL server UUIDs", "same-server"),
        ("InnoDB: Database page corruption on disk", "corruption"),
        ("Slave SQL: Could not execute Write_rows_v1 event on table lab.ledger", "broken-replication"),
        ("[Warning] Worker 1 failed executing transaction 'e:5'; Error_code: MY-001032", "broken-replication"),
    ],
)
def test_servers_words_for_disasters_are_known(line, name):
    """In the spellings of both families."""
    lab = LoggingLab()
    watch = forbidden_logs.LogWatch(lab)
    lab.text += line

    assert watch.found()[0].split(": ")[1] == name


@pytest.mark.parametrize(
    "line",
    [
        "InnoDB: Starting crash recovery from checkpoint LSN=47163",
        "[Warning] Aborted connection 12 to db: 'lab' user: 'lab' (Got timeout reading communication packets)",
        "[ERROR] Slave I/O: error reconnecting to master - retry-time: 1 maximum-retries: 100000, Error_code: 2003",
        "[Note] Recovering after a crash using bin",
        "Aborted connection 13 to db: 'unconnected' (A slave with the same server_id is already connected)",
        "[Warning] [MY-010584] [Repl] Replica SQL for channel 'group_replication_applier': Worker 2 failed executing "
        "transaction 'ecb90a23:5'; Could not execute Write_rows event on table lab.ledger; Deadlock; Error_code: 1213",
    ],
)
def test_what_a_fault_makes_any_server_say_is_not_forbidden(line):
    """A drill would be refuted by its own doing."""
    lab = LoggingLab()
    watch = forbidden_logs.LogWatch(lab)
    lab.text += line

    assert watch.found() == []


def test_a_forbidden_line_refutes_every_drill():
    """Whatever its file expects; it is printed."""
    result = judge(evidence(forbidden=["node1: crash: mysqld got signal 11"]), HISTORY)

    assert (result.judgements[-1].verdict, result.exit_code) == (Verdict.REFUTED, 1)
    assert "FORBIDDEN     node1: crash: mysqld got signal 11" in text(summed_up(result))


def test_a_replaced_node_that_is_ahead_may_be_refused_by_the_new_source():
    """Error 1236 keeps two histories apart; one that had nothing of its own has another trouble, as any other node."""
    line = "fatal-from-source: [ERROR] Slave I/O: Got fatal error 1236 from master when reading data from binary log"
    (acted,) = evidence().acted

    def found(errant, *lines):
        ahead = evidence(acted=[msgspec.structs.replace(acted, errant=errant)], forbidden=[*lines])
        return judge(ahead, HISTORY).figures["forbidden"]

    assert found({"node1": [(3, 4)]}, f"node1: {line}") == 0
    assert found({"node1": []}, f"node1: {line}") == found({"node1": [(3, 4)]}, f"node2: {line}") == 1
    assert found({"node1": [(3, 4)]}, "node1: crash: mysqld got signal 11") == 1


def test_a_name_that_is_no_forbidden_pattern_is_refused(refused):
    """Tolerating nothing must not look like tolerating something."""
    assert "did you mean crash" in refused(forbidden_logs.LogWatch, LoggingLab(), ["crashh"]).found
