"""Does a fault of an experiment act for its block only, and never go unproved?"""

import pytest
from replication_lab.faults.fault import injected
from replication_lab.model.core.errors import LabError

from tests.fakes.fault import FakeFault


def test_a_fault_that_was_ended_is_proved_to_the_last_and_recovered_from_once():
    """At its begin, at its end, and gone."""
    fault = FakeFault()
    with injected(fault) as acting:
        proofs = acting.end()

    assert [proof.what for proof in proofs] == ["it is cut", "it is cut", "it is whole"]
    assert fault.asked == ["inject", "verify", "verify", "recover", "verify_recovered", "close"]


def test_a_fault_that_did_not_take_hold_is_refused(refused):
    """A load under it would show nothing."""
    fault = FakeFault(holds=False)

    assert refused(injected(fault).__enter__).found == "check failed: it is cut: not so"
    assert fault.asked == ["inject", "verify", "recover", "close"]


def test_a_fault_that_proves_nothing_is_refused(refused):
    """No proof is no proof that it took hold."""
    fault = FakeFault(holds=None)

    assert refused(injected(fault).__enter__).found == "check failed: FakeFault acts: none"
    assert fault.asked == ["inject", "verify", "recover", "close"]


def test_a_fault_that_proves_nothing_any_more_is_doubted():
    """At its end, and once it should be gone."""
    fault = FakeFault(gone=None)
    with injected(fault) as acting:
        fault.holds = None
        proofs = acting.end()

    assert [proof.doubt for proof in proofs] == [
        None,
        "FakeFault acts: expected a proof, found none",
        "FakeFault is removed: expected a proof, found none",
    ]


def test_a_fault_is_gone_after_a_block_that_failed():
    """Whatever happened."""
    fault = FakeFault()
    with pytest.raises(LabError, match="the load"), injected(fault):
        raise LabError("the load failed")

    assert fault.asked == ["inject", "verify", "recover", "close"]
