"""Nodes with no CPU at all, or with less CPU or memory: a frozen container, or a limit on a running one."""

from collections.abc import Sequence
from functools import partial

from replication_lab.faults._nodes import OnNodes
from replication_lab.faults.fault import fault
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.storage import DATA
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab

SILENCE_SECONDS = 0.5


@fault(
    "pause",
    does="the node is frozen: it gets no CPU, and connections stay open",
    proof="a new connection gets no answer; after recovery: the node serves again",
)
class Pause(OnNodes):
    """Nodes to freeze; after recovery they continue where they were."""

    def inject(self) -> None:
        self.each(lambda node: self.lab.node(node).pause())

    def acts(self, node: str) -> Proof:
        # A machine without a running server answers no query; its container's state shows whether it is frozen.
        answers, state = self._answers(node), self.lab.node(node).state()[0]
        return Proof(
            what=f"{node} is frozen",
            expected=f"no answer within {SILENCE_SECONDS:g} s, paused",
            found=f"{'an answer' if answers else 'no answer'}, {state}",
            ok=not answers and state == "paused",
        )

    def _answers(self, node: str) -> bool:
        # A connection that is refused ends the wait.
        return bool(clock.soon(partial(self._ask, node), SILENCE_SECONDS))

    def _ask(self, node: str) -> bool:
        # A separate connection, so that the timeout does not end the lab's connection.
        self.lab.node(node).server().connect(answer_seconds=SILENCE_SECONDS).close()
        return True

    def recover(self) -> None:
        self.each(self._thaw)

    def _thaw(self, node: str) -> None:
        if self.lab.node(node).state()[0] == "paused":
            self.lab.node(node).unpause()


# As a share of one CPU. With a hundredth of a CPU a server answers, but makes hardly any progress.
CPU_SHARE, PERIOD_US = 0.05, 100_000


@fault(
    "cpu",
    does="the node is limited to a twentieth of a CPU",
    proof="the limit is set and has throttled the server; after recovery: the previous limit is set",
)
class CpuSqueeze(OnNodes):
    """Nodes that get a share of a CPU, by default a twentieth; recovery restores their previous limit."""

    def __init__(self, lab: Lab, nodes: Sequence[str], share: float = CPU_SHARE):
        super().__init__(lab, nodes)
        self.share, self._quota_us = share, round(share * PERIOD_US)
        self._had = {node: lab.node(node).cpu_quota_us() for node in self.nodes}
        self._throttled: dict[str, int] = {}

    def inject(self) -> None:
        self._throttled = {node: self.lab.node(node).throttled() for node in self.nodes}
        self.each(lambda node: self.lab.node(node).limit_cpu(self._quota_us, PERIOD_US))

    def acts(self, node: str) -> Proof:
        """Prove that the limit is set; at the fault's end its throttling of the server is proved."""
        quota = self.lab.node(node).cpu_quota_us()
        expected, found = (f"{us} µs in each {PERIOD_US} µs" for us in (self._quota_us, quota))
        return Proof.same(f"{node} is limited to {self.share:g} of a CPU", found if quota > 0 else "no limit", expected)

    def recover(self) -> None:
        try:
            self._waited = {name: self.lab.node(name).throttled() - then for name, then in self._throttled.items()}
        finally:
            # Also if the throttling cannot be read: an experiment measures its next case on the same lab.
            self.each(lambda node: self.lab.node(node).limit_cpu(self._had[node], PERIOD_US))

    def _had_effect(self, node: str) -> Proof:
        waited = self._waited[node]
        return Proof(
            what=f"{node} reached its CPU limit",
            expected="at least one throttled period",
            found=f"{waited} throttled periods",
            ok=waited > 0,
        )

    def is_undone(self, node: str) -> Proof:
        quota, had = self.lab.node(node).cpu_quota_us(), self._had[node]
        return Proof.same(f"{node} has its previous CPU limit again", f"{quota} µs", f"{had} µs")


# MiB that the limit is above the server's use when the fault begins.
MEMORY_SPARE_MIB = 16
# More data than the remaining memory can cache.
READ_FILES = f"cat {DATA}/ib* >/dev/null"
# The kernel charges and releases memory in small batches.
UNUSED_MIB = 4
MIB = 1 << 20


@fault(
    "memory",
    does="the node's memory limit is set 16 MiB above its use, and all its files are read once, as by a backup",
    proof="the limit is set, and all of it is used; after recovery: the previous limit is set",
)
class MemorySqueeze(OnNodes):
    """Nodes limited to hardly more memory than they use, while their files are read; recovery restores the limit."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        self._had = {node: lab.node(node).memory_limit() for node in self.nodes}
        self._asked: dict[str, int] = {}

    def inject(self) -> None:
        for node in self.nodes:
            self._asked[node] = round(self.lab.node(node).memory_mib() + MEMORY_SPARE_MIB) * MIB
            self.lab.node(node).limit_memory(self._asked[node])
        # As a backup does: the cached pages of files compete with the server's own.
        self.each(lambda node: self.lab.node(node).run("sh", "-c", READ_FILES))

    def acts(self, node: str) -> Proof:
        """Prove that the limit is set; in a later call also that the server has reached it."""
        return self._has(node, "has a memory limit just above its use", self._asked[node])

    def _has(self, node: str, what: str, limit: int) -> Proof:
        found = self.lab.node(node).memory_limit()
        return Proof(what=f"{node} {what}", expected=_mib(limit), found=_mib(found), ok=found == limit)

    def recover(self) -> None:
        self._used = {node: self.lab.node(node).memory_used() for node in self.nodes}
        self.each(lambda node: self.lab.node(node).limit_memory(self._had[node]))

    def is_undone(self, node: str) -> Proof:
        return self._has(node, "has its previous memory limit again", self._had[node])

    def _had_effect(self, node: str) -> Proof:
        used, asked = self._used[node], self._asked[node]
        return Proof(
            what=f"{node} reached its memory limit",
            expected=f"at least {asked // MIB - UNUSED_MIB} MiB of {asked // MIB} MiB used",
            found=f"{used // MIB} MiB",
            ok=used >= asked - UNUSED_MIB * MIB,
        )


def _mib(limit: int) -> str:
    return f"at most {limit // MIB} MiB" if 0 < limit < 1 << 50 else "no limit"
