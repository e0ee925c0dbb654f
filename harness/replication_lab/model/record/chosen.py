"""What the options of `lab run` choose: a part of an experiment, and what it is compared with in the same rounds."""

import msgspec

from replication_lab.model.core.given_file import GivenFile


class Only(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an experiment, as a record contains it; an empty field leaves nothing out.

    `rounds` is the maximum number of rounds in place of the preset's, `cases` are the only ones that are measured,
    `claims` the only ones that are judged.
    """

    rounds: int | None = None
    cases: list[str] = []
    claims: list[str] = []

    @property
    def why_not_measured(self) -> str:
        """Return the reason why other cases are not measured; empty if no option leaves cases out."""
        if self.cases:
            return "left out by --case"
        return "none of the claims given by --claim needs it" if self.claims else ""

    @property
    def sentence(self) -> str:
        """Return the restrictions in words; empty if there are none."""
        told = [f"at most {self.rounds} rounds"] if self.rounds else []
        told += [f"only the cases {', '.join(self.cases)}"] if self.cases else []
        told += [f"only the claims {', '.join(self.claims)}"] if self.claims else []
        return "; ".join(told)

    @property
    def options(self) -> str:
        """Return the options of `lab run` that ask for this, each after a space."""
        told = [f" --runs {self.rounds}"] if self.rounds else []
        told += [f" --case {name}" for name in self.cases]
        return "".join([*told, *(f" --claim {name}" for name in self.claims)])


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
