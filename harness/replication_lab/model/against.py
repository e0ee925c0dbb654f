"""The server that a run compares with another one in the same rounds."""

import msgspec


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """The request of `lab run --against`, as a record holds it.

    The throughput of each case may be lower than on `server` by at most the share `margin`.
    """

    server: str
    margin: float

    @property
    def options(self) -> str:
        """Return the options of `lab run` that ask for this, each after a space."""
        return f" --against {self.server} --margin {100 * self.margin:g}%"
