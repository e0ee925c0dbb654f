"""The proof of a state: what was found, and whether it was expected."""

import msgspec


class Proof(msgspec.Struct, frozen=True):
    """A state that was checked and not assumed, such as "semi-sync stayed on"; `what` may include the expectation.

    `slow` means that it failed because something did less, or took longer, than expected, as in a slow moment of the
    machine. It never means that a state was lost.
    """

    what: str
    found: str
    ok: bool
    expected: str = ""
    slow: bool = False

    @classmethod
    def same(cls, what: str, found: str, expected: str) -> "Proof":
        """Return the proof that what was found is what was expected, in the same words."""
        return cls(what, found, found == expected, expected)

    @property
    def doubt(self) -> str | None:
        expected = f"expected {self.expected}, found " if self.expected else ""
        return None if self.ok else f"{self.what}: {expected}{self.found}"
