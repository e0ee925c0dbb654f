"""Several faults as one: each is injected at its time, all are verified, and recovery runs in reverse order."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from replication_lab.faults.disks import DiskFull
from replication_lab.faults.fault import Fault, proofs_of, proofs_of_recovery
from replication_lab.faults.upgrade import Upgrade
from replication_lab.model.core.proof import Proof
from replication_lab.world import clock


class FaultSchedule:
    """Faults with their times, in seconds since `inject`; faults with equal times are injected at the same time."""

    def __init__(self, faults: Sequence[tuple[float, Fault]]):
        self.faults = list(faults)

    def inject(self) -> None:
        with ThreadPoolExecutor(len(self.faults)) as pool:
            injecting = [pool.submit(self._inject_at, at, fault) for at, fault in self.faults]
        for each in injecting:
            each.result()

    def _inject_at(self, at: float, fault: Fault) -> None:
        clock.pause(at)
        fault.inject()

    def verify(self) -> list[Proof]:
        return [proof for _, fault in self.faults for proof in proofs_of(fault)]

    def recover(self) -> None:
        """Recover all faults in reverse order, also if one of them fails to recover; then raise its error."""
        with ExitStack() as stack:
            for _, fault in self.faults:
                stack.callback(fault.recover)

    def verify_recovered(self) -> list[Proof]:
        return [proof for _, fault in self.faults for proof in proofs_of_recovery(fault)]

    @property
    def refusals(self) -> dict[str, str]:
        """Why the servers of nodes did not start after an upgrade; an empty text for those that did."""
        upgrades = [fault for _, fault in self.faults if isinstance(fault, Upgrade)]
        return {node: why for each in upgrades for node, why in each.refusals.items()}

    @property
    def ended(self) -> list[str]:
        """The nodes whose servers ended because of a full disk."""
        return [node for _, fault in self.faults if isinstance(fault, DiskFull) for node in fault.ended]

    def close(self) -> None:
        for _, fault in self.faults:
            fault.close()
