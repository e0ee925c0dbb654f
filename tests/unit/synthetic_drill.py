"""Synthetic drills: their openings, their evidence, and their clients' histories."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from junitparser import JUnitXml
from replication_lab import faults
from replication_lab.model.core.event import End, LabCameUp
from replication_lab.model.core.observation import Observation
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.drill import parse_drill
from replication_lab.model.drill.evidence import DrillsOpening, Evidence, FaultEvidence, View
from replication_lab.model.drill.history import Attempt, Copy, Invoked, Outcome, StatementEnd, encode
from replication_lab.model.record.record import Record
from replication_lab.report import DrillsSummary, junit, summarise_drills
from replication_lab.witnesses.witness import OBLIGATIONS
from replication_lab.world import catalogue, journal

GALERA = catalogue.topology("galera")
KINDS = faults.kinds()
FILE = """
about: a test's
clients: {node1: 1, node2: 1}
steps: [{fault: cut, targets: [node3], seconds: 3}]
expected: [{says: nothing is lost, figure: lost, equals: 0}]
"""
HISTORY = [Attempt(at, 1, "node1", at, at + 0.1, Outcome.ACKNOWLEDGED) for at in range(10)]
CUT = Proof(what="node1-node3 is cut", expected="nothing gets through", found="nothing gets through", ok=True)
PRIMARY, ALONE = View("Primary", 3, "H"), View("non-Primary", 1, "H")


def parsed(text=FILE):
    return parse_drill("test", GALERA, text, KINDS)


def evidence(**changes) -> Evidence:
    """Return the evidence of a drill that went as expected."""
    step = parsed().steps[0]
    good = Evidence(
        drill=parsed(),
        at="t",
        load=(0.0, 10.1),
        acted=[FaultEvidence(step, 2, 2.5, 5, 5.5, 6, [CUT], {"node1": PRIMARY, "node3": ALONE})],
        before={"node1": PRIMARY},
        after={"node1": PRIMARY},
        copies=[Copy("node1", [(0, 9)]), Copy("node2", [(0, 9)])],
        observations=[Observation(each, -0.5, 10.1) for each in OBLIGATIONS],
    )
    return msgspec.structs.replace(good, **changes)


def fault(broke: float, struck: float, healed: float, whole: float) -> FaultEvidence:
    """Return a fault of which only the moments matter."""
    return FaultEvidence(parsed().steps[0], broke, struck, healed, whole, whole, [CUT], {}, struck)


def summed_up(*results) -> DrillsSummary:
    """Return the summary of a run whose drills have these results."""
    return summarise_drills(Record([opening(*(each.drill for each in results)), End(why="done")]), results)


def opening(*drills) -> DrillsOpening:
    """Return the opening of a run of drills on a cluster."""
    return DrillsOpening(topology="galera", engines=["mariadb"], seed=7, drills=[*drills], started="2030-01-01")


class Upped:
    """A lab that came up, and whether it has been removed, or is meant to stay."""

    name, topology, engine = "drill-galera-1", GALERA, "mariadb"

    def __init__(self):
        self.gone = self.stays = False

    def down(self):
        self.gone = True


def recorded(runs: Path) -> Iterator[journal.Journal]:
    """Yield a record of two drills, of which the first was run; its ledger beside it."""
    first, second = (msgspec.structs.replace(parsed(), name=name) for name in ("first", "second"))
    written = journal.Journal("drill-galera", runs=runs)
    written.write(opening(first, second))
    written.write(LabCameUp(engine="mariadb", version="11.8", topology="galera"))
    written.write(evidence(drill=first))
    with journal.ledger(written.folder, "first").open("wb") as ledger:
        for one in HISTORY:
            ledger.write(encode(Invoked(one.id, 1, one.node, one.invoked, "t")))
            ledger.write(encode(StatementEnd(one.id, one.ended, one.outcome)))
    yield written
    written.close()


def junit_of(summary) -> JUnitXml:
    return JUnitXml.fromstring(junit.render(summary))
