"""Several faults as one: each strikes at its moment, all of them are proved, and the last to strike is undone first."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Protocol

from replication_lab.model.record import Proof
from replication_lab.world import clock


class Fault(Protocol):
    """What breaks something: `act`, `proofs` while it acts, `undo`, `proofs_of_end` once it is gone, `close`."""

    def act(self) -> None: ...

    def proofs(self) -> list[Proof]: ...

    def undo(self) -> None: ...

    def proofs_of_end(self) -> list[Proof]: ...

    def close(self) -> None: ...


class Together:
    """Faults with their moments, in seconds since `act`. Those of the same moment strike in the same instant."""

    def __init__(self, faults: Sequence[tuple[float, Fault]]):
        self.faults = list(faults)

    def act(self) -> None:
        with ThreadPoolExecutor(len(self.faults)) as pool:
            striking = [pool.submit(self._strike, at, fault) for at, fault in self.faults]
        for each in striking:
            each.result()

    def _strike(self, at: float, fault: Fault) -> None:
        clock.pause(at)
        fault.act()

    def proofs(self) -> list[Proof]:
        return self._of_all(lambda fault: fault.proofs())

    def _of_all(self, ask: Callable[[Fault], list[Proof]]) -> list[Proof]:
        return [proof for _, fault in self.faults for proof in ask(fault)]

    def undo(self) -> None:
        """All of them, the last first, also where one cannot be undone; that one's error is told then."""
        with ExitStack() as stack:
            for _, fault in self.faults:
                stack.callback(fault.undo)

    def proofs_of_end(self) -> list[Proof]:
        return self._of_all(lambda fault: fault.proofs_of_end())

    def close(self) -> None:
        for _, fault in self.faults:
            fault.close()
