"""A state that was looked at, and whether it was the one that was expected."""

import msgspec


class Proof(msgspec.Struct, frozen=True):
    """A state that was checked and not believed, such as "semi-sync stayed on"; `what` may say what was expected."""

    what: str
    found: str
    ok: bool
    expected: str = ""

    @property
    def doubt(self) -> str | None:
        expected = f"expected {self.expected}, found " if self.expected else ""
        return None if self.ok else f"{self.what}: {expected}{self.found}"
