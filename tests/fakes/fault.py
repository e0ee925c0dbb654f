"""A fault whose proofs are as given."""

from replication_lab.model.core.proof import Proof


class FakeFault:
    """A fault that remembers what it was asked to do.

    `holds` is whether it takes hold, `gone` whether recovery removes it; None proves nothing.
    """

    def __init__(self, holds=True, gone=True):
        self.holds, self.gone, self.asked = holds, gone, []

    def inject(self):
        self.asked.append("inject")

    def verify(self):
        self.asked.append("verify")
        return proofs("it is cut", self.holds)

    def recover(self):
        self.asked.append("recover")

    def verify_recovered(self):
        self.asked.append("verify_recovered")
        return proofs("it is whole", self.gone)

    def close(self):
        self.asked.append("close")


def proofs(what, ok):
    """Return one proof, or none if `ok` is None."""
    return [] if ok is None else [Proof(what=what, expected="so", found="so" if ok else "not so", ok=ok)]
