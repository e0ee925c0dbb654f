"""The part of an experiment that options of `lab run` restrict a run to, besides its preset."""

import msgspec


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
