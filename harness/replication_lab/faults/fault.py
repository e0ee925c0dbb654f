"""The methods that every fault has, the register of all faults, and a fault for the duration of a block."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from replication_lab.model.core.errors import LabError, TooSlow
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import LINKS, NODES, FaultKind


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


def proofs_of(acting: Fault) -> list[Proof]:
    """Verify that a fault acts. Without a proof it counts as one that did nothing."""
    return acting.verify() or [_unproved(acting, "acts")]


def proofs_of_recovery(recovered: Fault) -> list[Proof]:
    """Verify that a fault is removed. Without a proof it counts as still there."""
    return recovered.verify_recovered() or [_unproved(recovered, "is removed")]


def _unproved(made: Fault, what: str) -> Proof:
    return Proof(what=f"{type(made).__name__} {what}", expected="a proof", found="none", ok=False)


class Registered(NamedTuple):
    """A kind of fault, and the function that makes a fault of a lab, its targets and its settings by name."""

    kind: FaultKind
    make: Callable[..., Fault]


METHODS = ("inject", "verify", "recover", "verify_recovered", "close")
# All kinds, by the names that drills give them.
FAULTS: dict[str, Registered] = {}
Make = TypeVar("Make", bound=Callable[..., Fault])


def fault(name: str, **known: Any) -> Callable[[Make], Make]:
    """Make a class the fault of that name, which drills use.

    `known` are the fields of its FaultKind. Raise LabError if another class has the name, or a method is missing.
    """
    kind = FaultKind(name, **known)

    def registered(made: Make) -> Make:
        if kind.acts_on not in (NODES, LINKS):
            raise LabError(f"the fault {name} acts on {kind.acts_on}", f"{NODES} or {LINKS}")
        if missing := [method for method in METHODS if not callable(getattr(made, method, None))]:
            raise LabError(
                f"the fault {name} has no method {missing[0]}", f"the methods {', '.join(METHODS)} (docs/adding.md)"
            )
        other = FAULTS[name].make if name in FAULTS else made
        if other is not made and _is_loaded(other):
            raise LabError(
                f"{made.__module__} registers {name}, which {other.__module__} registers",
                "one fault for each name",
                "give one of them another name",
            )
        FAULTS[name] = Registered(kind, made)
        return made

    return registered


def _is_loaded(made: Callable[..., Fault]) -> bool:
    """Return whether a class is still one of its module: that of another project's file of the same name is not."""
    return getattr(sys.modules.get(made.__module__), made.__name__, None) is made


@dataclass
class Injected:
    """An injected fault, and the proofs that it took hold."""

    fault: Fault
    proofs: list[Proof]
    recovered: bool = False

    def end(self) -> list[Proof]:
        """Verify once more that the fault acts, then recover; return all proofs of its begin and its end."""
        to_the_last = proofs_of(self.fault)
        self.recover()
        return [*self.proofs, *to_the_last, *proofs_of_recovery(self.fault)]

    def recover(self) -> None:
        if not self.recovered:
            self.fault.recover()
            self.recovered = True


@contextmanager
def injected(fault: Fault) -> Iterator[Injected]:
    """Inject the fault for the block, or until `end` is called; recover in any case.

    Raise LabError if the fault did not take hold, since a load under it would show nothing; TooSlow if only a slow
    moment of the machine may have hidden it.
    """
    acting = Injected(fault, [])
    with closing(fault):
        try:
            fault.inject()
            acting.proofs = proofs_of(fault)
            if broken := [proof for proof in acting.proofs if not proof.ok]:
                said = "; ".join(f"{proof.what}: {proof.found}" for proof in broken)
                kind = TooSlow if all(proof.slow for proof in broken) else LabError
                raise kind(f"check failed: {said}", broken[0].expected, "./lab doctor")
            yield acting
        finally:
            acting.recover()
