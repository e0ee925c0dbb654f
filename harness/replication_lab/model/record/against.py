"""What a run compares an experiment with in the same rounds."""

import msgspec

from replication_lab.model.core.given_file import GivenFile

# `lab run --against git:REVISION`.
GIT = "git:"


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """The request of `lab run --against`, as a record holds it: one of a server, a my.cnf file and a commit.

    Each compared figure of a case may be worse than on `server`, or with the Compose file of `commit`, by at most the
    share `margin`. With `cnf` it may be worse than without it.
    """

    server: str = ""
    cnf: GivenFile | None = None
    commit: str = ""
    margin: float

    @property
    def name(self) -> str:
        if self.commit:
            return f"{GIT}{self.commit[:12]}"
        return self.cnf.name if self.cnf else self.server

    @property
    def reference(self) -> str:
        """Return what names the reference in the ids of claims; the same for all commits."""
        return GIT.removesuffix(":") if self.commit else self.name

    @property
    def options(self) -> str:
        """Return the options of `lab run` that ask for this, each after a space."""
        return f" --against {self.name} --margin {100 * self.margin:g}%"
