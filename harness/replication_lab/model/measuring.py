"""What a case is measured by: a workload, what came of it, and a watch over the state that the case asks for."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from replication_lab.model.proof import Proof

# What a workload is run on. The model knows no lab.
LabT = TypeVar("LabT")
LabIn = TypeVar("LabIn", contravariant=True)


class Outcome(Protocol):
    """What came of a load: transactions committed, figures by name, and the raw readings behind them."""

    @property
    def commits(self) -> int: ...

    @property
    def figures(self) -> Mapping[str, float]: ...

    @property
    def samples(self) -> Mapping[str, list[float]]: ...


@runtime_checkable
class HasProofs(Protocol):
    """An outcome of a load of several phases, which knows best what each of them needs."""

    @property
    def proofs(self) -> Sequence[Proof]: ...


class Workload(Protocol[LabIn]):
    """What the clients do."""

    def run(self, lab: LabIn, seed: int, /) -> Outcome: ...


class Watch(Protocol):
    """Looks whether the state that was arranged lasts for the whole load."""

    def figures(self) -> Mapping[str, float]:
        """Say what it counted meanwhile."""

    def proofs(self, commits: int, fastest_ms: float | None = None, /) -> list[Proof]:
        """Prove the state over a load of `commits` transactions, the fastest of which took `fastest_ms`."""
