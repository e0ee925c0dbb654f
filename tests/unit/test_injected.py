"""Does a fault of an experiment act for its block only, and never go unproved?"""

import pytest
from replication_lab.faults.injected import injected
from replication_lab.model.errors import LabError
from replication_lab.model.proof import Proof


class Told:
    """A fault that remembers what it was asked to do; `holds` is whether it takes hold, None if it proves nothing."""

    def __init__(self, holds=True, gone=True):
        self.holds, self.gone, self.asked = holds, gone, []

    def inject(self):
        self.asked.append("inject")

    def verify(self):
        self.asked.append("verify")
        if self.holds is None:
            return []
        return [Proof(what="it is broken", expected="so", found="so" if self.holds else "not so", ok=self.holds)]

    def recover(self):
        self.asked.append("recover")

    def verify_recovered(self):
        self.asked.append("verify_recovered")
        return [Proof(what="it is whole", found="so", ok=True)] if self.gone else []

    def close(self):
        self.asked.append("close")


def test_a_fault_that_was_ended_is_proved_to_the_last_and_recovered_from_once():
    """At its begin, at its end, and gone."""
    fault = Told()
    with injected(fault) as acting:
        proofs = acting.end()

    assert [proof.what for proof in proofs] == ["it is broken", "it is broken", "it is whole"]
    assert fault.asked == ["inject", "verify", "verify", "recover", "verify_recovered", "close"]


def test_a_fault_that_did_not_take_hold_is_refused(refused):
    """A load under it would show nothing."""
    fault = Told(holds=False)

    assert refused(injected(fault).__enter__).found == "check failed: it is broken: not so"
    assert fault.asked == ["inject", "verify", "recover", "close"]


def test_a_fault_that_proves_nothing_is_refused(refused):
    """No proof is no proof that it took hold."""
    fault = Told(holds=None)

    assert refused(injected(fault).__enter__).found == "check failed: Told acts: none"
    assert fault.asked == ["inject", "verify", "recover", "close"]


def test_a_fault_that_proves_nothing_any_more_is_doubted():
    """At its end, and once it should be gone."""
    fault = Told(gone=False)
    with injected(fault) as acting:
        fault.holds = None
        proofs = acting.end()

    assert [proof.doubt for proof in proofs] == [
        None,
        "Told acts: expected a proof, found none",
        "Told is removed: expected a proof, found none",
    ]


def test_a_fault_is_gone_after_a_block_that_failed():
    """Whatever happened."""
    fault = Told()
    with pytest.raises(LabError, match="the load"), injected(fault):
        raise LabError("the load failed")

    assert fault.asked == ["inject", "verify", "recover", "close"]
