"""What a run compares an experiment with in the same rounds: another server, or the same one with a my.cnf file."""

import msgspec

from replication_lab.model.given_file import GivenFile


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """The request of `lab run --against`, as a record holds it: a server, or a my.cnf file.

    The throughput of each case may be lower than on `server`, or with `cnf`, by at most the share `margin`.
    """

    server: str = ""
    cnf: GivenFile | None = None
    margin: float

    @property
    def name(self) -> str:
        return self.cnf.name if self.cnf else self.server

    @property
    def options(self) -> str:
        """Return the options of `lab run` that ask for this, each after a space."""
        return f" --against {self.name} --margin {100 * self.margin:g}%"
