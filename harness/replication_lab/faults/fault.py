"""The methods that every fault has, and the register of all faults."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import FaultKind


class Fault(Protocol):
    """A fault made for a lab and its targets, with its settings by their names.

    `inject` breaks the targets, and `verify` proves it; it may be called repeatedly. `recover` undoes exactly what
    `inject` did, also after a partial `inject`; `verify_recovered` proves it. `close` releases connections and threads.
    """

    def inject(self) -> None: ...

    def verify(self) -> list[Proof]: ...

    def recover(self) -> None: ...

    def verify_recovered(self) -> list[Proof]: ...

    def close(self) -> None: ...


def proofs_of(fault: Fault) -> list[Proof]:
    """Verify that a fault acts. Without a proof it counts as one that did nothing."""
    return fault.verify() or [_unproved(fault, "acts")]


def proofs_of_recovery(fault: Fault) -> list[Proof]:
    """Verify that a fault is removed. Without a proof it counts as still there."""
    return fault.verify_recovered() or [_unproved(fault, "is removed")]


def _unproved(fault: Fault, what: str) -> Proof:
    return Proof(what=f"{type(fault).__name__} {what}", expected="a proof", found="none", ok=False)


# --- the faults that there are ----------------------------------------------------------------------------------------


class Registered(NamedTuple):
    """A kind of fault, and the function that makes a fault of a lab, its targets and its settings by name."""

    kind: FaultKind
    make: Callable[..., Fault]


# All kinds, by the names that drills give them.
FAULTS: dict[str, Registered] = {}
Make = TypeVar("Make", bound=Callable[..., Fault])


def register(name: str, **known: Any) -> Callable[[Make], Make]:
    """Make a class the fault of that name; `known` are the fields of its FaultKind. LabError if the name is taken."""
    kind = FaultKind(name, **known)

    def registered(fault: Make) -> Make:
        other = FAULTS.setdefault(name, Registered(kind, fault)).make
        if other is not fault:
            raise LabError(
                f"{fault.__module__} registers {name}, which {other.__module__} registers",
                "one fault for each name",
                "give one of them another name",
            )
        return fault

    return registered
