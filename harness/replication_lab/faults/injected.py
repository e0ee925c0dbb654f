"""A fault for the duration of a block, for experiments: injected, verified, and recovered at the end of the block."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from replication_lab.faults.fault import Fault, proofs_of, proofs_of_recovery
from replication_lab.model.core.errors import LabError, TooSlow
from replication_lab.model.core.proof import Proof


@dataclass
class Injected:
    """An injected fault, and the proofs that it took hold."""

    fault: Fault
    proofs: list[Proof]
    recovered: bool = False

    def end(self) -> list[Proof]:
        """Verify once more that the fault acts, then recover; return all proofs of its begin and its end."""
        to_the_last = proofs_of(self.fault)
        self.recover()
        return [*self.proofs, *to_the_last, *proofs_of_recovery(self.fault)]

    def recover(self) -> None:
        if not self.recovered:
            self.fault.recover()
            self.recovered = True


@contextmanager
def injected(fault: Fault) -> Iterator[Injected]:
    """Inject the fault for the block, or until `end` is called; recover in any case.

    Raise LabError if the fault did not take hold, since a load under it would show nothing; TooSlow if only a slow
    moment of the machine may have hidden it.
    """
    acting = Injected(fault, [])
    with closing(fault):
        try:
            fault.inject()
            acting.proofs = proofs_of(fault)
            if broken := [proof for proof in acting.proofs if not proof.ok]:
                said = "; ".join(f"{proof.what}: {proof.found}" for proof in broken)
                kind = TooSlow if all(proof.slow for proof in broken) else LabError
                raise kind(f"check failed: {said}", broken[0].expected, "./lab doctor")
            yield acting
        finally:
            acting.recover()
