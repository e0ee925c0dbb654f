"""The proof of a state: what was found, and whether it was expected."""

import msgspec


class Proof(msgspec.Struct, frozen=True):
    """A state that was checked and not assumed, such as "semi-sync stayed on"; `what` may include the expectation."""

    what: str
    found: str
    ok: bool
    expected: str = ""

    @property
    def doubt(self) -> str | None:
        expected = f"expected {self.expected}, found " if self.expected else ""
        return None if self.ok else f"{self.what}: {expected}{self.found}"
