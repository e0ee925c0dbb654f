"""The measurement of a case: a workload, its outcome, and a watch over the state that the case requires."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from replication_lab.model.core.proof import Proof

# The type of lab that a workload runs on. The model does not depend on it.
LabT = TypeVar("LabT")
LabIn = TypeVar("LabIn", contravariant=True)
# A function that returns the proofs of a state on the given nodes.
ProofsOfNodes = Callable[[Collection[str]], list[Proof]]


class LoadOutcome(Protocol):
    """The outcome of a load: transactions committed, figures by name (None: not computed), and the raw readings.

    It may also have `proofs` of its own, such as those for each phase of a load, and `moments`, the times of its
    transactions. Read-only transactions wait for no other node: an outcome with such has only those that write in
    `commits`, and the latency of the fastest of them in `fastest_commit_ms`, None if there is none. `findings` are
    examples in words of what a checker counted, by the name of the figure.
    """

    @property
    def commits(self) -> int: ...

    @property
    def figures(self) -> Mapping[str, float | None]: ...

    @property
    def samples(self) -> Mapping[str, list[float]]: ...


@dataclass(frozen=True)
class PlainOutcome:
    """An outcome that is only its figures, and raw readings and proofs if there are any."""

    commits: int
    figures: Mapping[str, float]
    samples: Mapping[str, list[float]] = field(default_factory=dict)
    proofs: Sequence[Proof] = ()


class Workload(Protocol[LabIn]):
    """The load of the clients; one whose `keeps_samples` is False has no raw readings in the record."""

    def run(self, lab: LabIn, seed: int, /) -> LoadOutcome: ...


class Watch(Protocol):
    """A check that the arranged state lasts for the whole load."""

    def figures(self) -> Mapping[str, float]:
        """Return the figures that the watch counted during the load; most count none that belongs into a record."""
        return {}

    def proofs(self, commits: int, fastest_ms: float | None = None, /) -> list[Proof]:
        """Prove the state over a load of `commits` transactions, the fastest of which took `fastest_ms`."""


@dataclass(frozen=True)
class Proves(Watch):
    """A watch that counts nothing and makes these proofs after the load."""

    after_load: Callable[[], list[Proof]]

    def proofs(self, _commits: int, _fastest_ms: float | None = None) -> list[Proof]:
        return self.after_load()


@dataclass(frozen=True)
class AlsoProves:
    """A watch with further proofs, which are made after its own, or `first`, and with further figures."""

    watch: Watch
    further: Callable[[], Sequence[Proof]]
    first: bool = False
    counted: Callable[[], Mapping[str, float]] = dict

    def figures(self) -> Mapping[str, float]:
        """Return those of the watch and its own, which are counted first: probes of the watch may take seconds."""
        counted = self.counted()
        return {**self.watch.figures(), **counted}

    def proofs(self, commits: int, fastest_ms: float | None = None, /) -> list[Proof]:
        if self.first:
            return [*self.further(), *self.watch.proofs(commits, fastest_ms)]
        return [*self.watch.proofs(commits, fastest_ms), *self.further()]
