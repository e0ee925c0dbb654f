"""Is a new fault one class? The one below is read, injected in a drill, proved and judged as any other."""

import threading
from contextlib import nullcontext

import pymysql
import pytest
from replication_lab import faults
from replication_lab.faults.fault import FAULTS, fault
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.proof import Proof
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill import history
from replication_lab.model.drill.drill import parse_drill
from replication_lab.model.drill.drill_result import judge
from replication_lab.model.drill.fault import NODES, Setting
from replication_lab.runner import drill as drill_run
from replication_lab.runner.drill import DrillRequest, run_drill
from replication_lab.witnesses.witness import Witnesses
from replication_lab.world import catalogue

from tests.fakes.lab import FakeLab
from tests.fakes.server import FakeServer

SINGLE = catalogue.topology("single")
FILE = """
about: The server refuses all statements.
clients: {server: 2}
steps: [{fault: refuse, code: 1290, targets: [server], seconds: 3}]
expected:
  - {says: no acknowledged row is lost, figure: lost, equals: 0}
  - {says: no row is there that was refused, figure: phantoms, equals: 0}
  - {says: statements are refused, figure: error.1290, at_least: 1}
"""
PATIENCE_SECONDS = 30


# --- the fault --------------------------------------------------------------------------------------------------------


def _check_code(where, code):
    if not code:
        raise CODE.refusal(where, "refuse", code, "the number of an error")


CODE = Setting("code", 0, "the code {}", _check_code)


class Refuse:
    """Servers that answer every statement with an error; recovered from, they take statements again."""

    def __init__(self, lab, nodes, code):
        self._servers, self._code = [lab.node(node).server() for node in nodes], code

    def inject(self):
        for server in self._servers:
            assert server.has_rows.wait(PATIENCE_SECONDS)
            server.refuses_with = self._code

    def verify(self):
        return [self._is_refused(server) for server in self._servers]

    def _is_refused(self, server):
        refused = server.has_refused.wait(PATIENCE_SECONDS)
        return Proof(what=f"{server.name} refuses", expected="a refusal", found=f"refused: {refused}", ok=refused)

    def recover(self):
        for server in self._servers:
            server.refuses_with = 0

    def verify_recovered(self):
        codes = [server.refuses_with for server in self._servers]
        return [Proof(what="statements are taken", expected="no code", found=f"codes {codes}", ok=not any(codes))]

    def close(self):
        pass


@pytest.fixture
def refuse():
    """Register the fault for this test only."""
    # The lab's own faults are registered once in a process: they have to be among those that are put back.
    faults.kinds()
    known = dict(FAULTS)
    yield fault("refuse", acts_on=NODES, does="refuses", proof="a refusal; none", settings=(CODE,), ends_servers=True)(
        Refuse
    )
    FAULTS.clear()
    FAULTS.update(known)


class QuietMeter:
    """A meter of a machine on which nothing else runs."""

    def read(self):
        return Noise()

    def restart(self):
        """Nothing is counted."""

    def close(self):
        """Nothing runs."""


@pytest.fixture
def ledger_lab(fake_world, monkeypatch):
    """Return a lab that drills can be run on."""
    monkeypatch.setattr(drill_run, "NoiseMeter", lambda _labs, **_how: QuietMeter())
    monkeypatch.setattr(drill_run, "observing", lambda *_: nullcontext(Witnesses([])))
    return LedgerLab(fake_world(), SINGLE, "mariadb")


# --- what it is injected into -----------------------------------------------------------------------------------------


class LedgerServer(FakeServer):
    """A server that keeps the ids of its ledger, for applications that connect to it."""

    refuses_with = 0

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.ids, self.has_rows, self.has_refused = [], threading.Event(), threading.Event()

    def as_application(self):
        return self

    def connect(self, database="", answer_seconds=1.0):
        return self

    def query(self, statement):
        if self.refuses_with:
            self.has_refused.set()
            raise pymysql.err.OperationalError(self.refuses_with, "refused")
        self.ids.append(int(statement.rpartition("(")[2].rstrip(")")))
        self.has_rows.set()

    def rollback(self):
        pass

    def rows(self, statement):
        asked = statement.startswith("SELECT id FROM lab.ledger")
        return [{"id": number} for number in sorted(self.ids)] if asked else super().rows(statement)


class LedgerLab(FakeLab):
    """A lab of one such server."""

    def _server(self, name):
        of_any_kind = super()._server(name)
        return LedgerServer(name, self, of_any_kind.semisync, None)


# --- as any other -----------------------------------------------------------------------------------------------------


def parsed(text=FILE):
    return parse_drill("refuse", SINGLE, text, faults.kinds())


def test_a_fault_that_was_registered_is_done_in_a_drill(refuse, ledger_lab, tmp_path):
    """No other file knows of it."""
    told = []
    evidence = run_drill(ledger_lab, DrillRequest(parsed(), 7), tmp_path / "ledger", told.append)
    with (tmp_path / "ledger").open("rb") as lines:
        result = judge(evidence, *history.parse(lines))

    assert result.doubts == []
    assert {one.verdict for one in result.judgements} == {Verdict.HOLDS}
    assert [proof.what for proof in evidence.acted[0].proofs] == ["server refuses"] * 2 + ["statements are taken"]
    assert any("refuse code +1290 on server: verified" in line for line in told)


def test_a_fault_that_does_nothing_and_proves_nothing_is_never_green(refuse, ledger_lab, monkeypatch, tmp_path):
    """All rows are there, as they would be without any fault."""
    monkeypatch.setattr(Refuse, "inject", lambda _: None)
    monkeypatch.setattr(Refuse, "verify", lambda _: [])
    evidence = run_drill(ledger_lab, DrillRequest(parsed(), 7), tmp_path / "ledger", lambda _: None)
    with (tmp_path / "ledger").open("rb") as lines:
        result = judge(evidence, *history.parse(lines))

    assert {one.verdict for one in result.judgements} == {Verdict.UNKNOWN}
    assert "Refuse acts: expected a proof, found none" in result.doubts


def test_what_was_registered_is_what_a_drill_is_held_against(refuse, refused):
    """Its settings and targets are checked, and others may not take its settings."""
    assert parsed().ends_servers(faults.kinds()) and not parsed().moves_clocks(faults.kinds())
    assert "refuse with the code 0" in refused(parsed, FILE.replace("code: 1290, ", "")).found
    assert "kill with the code 1290" in refused(parsed, FILE.replace("fault: refuse", "fault: kill")).found
    assert "unknown node of single 'servr'" in refused(parsed, FILE.replace("[server]", "[servr]")).found


def test_a_fault_that_nobody_registered_is_unknown(refused):
    """As it was before, and with the key that it alone would have taken."""
    assert "unknown field `code`" in refused(parsed).found
    assert "unknown fault" in refused(parsed, FILE.replace("code: 1290, ", "")).found


def test_a_name_is_registered_once(refuse, refused):
    """Another class of that name is refused; the same one again is not."""
    again = fault("refuse", acts_on=NODES, does="refuses", proof="a refusal; none", settings=(CODE,))

    assert again(Refuse) is Refuse
    assert (
        "registers kill, which replication_lab.faults.kill registers"
        in refused(fault("kill", acts_on=NODES, does="", proof=""), Refuse).found
    )
