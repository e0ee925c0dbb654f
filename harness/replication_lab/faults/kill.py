"""The end of nodes, all in the same instant, and their start again on the data that they had."""

from replication_lab.faults._nodes import OnNodes
from replication_lab.model.record import Proof
from replication_lab.world import clock

SIGKILL_STATUS = 137
END_SECONDS = 60


class Kill(OnNodes):
    """Nodes to kill with SIGKILL; undone, the same containers run on the same data."""

    status, said = SIGKILL_STATUS, "killed"

    def act(self) -> None:
        self.each(self.end)
        for node in self.nodes:
            clock.wait_until(
                lambda node=node: self.lab.state_of(node)[0] == "exited", f"the end of {node}", END_SECONDS
            )

    def end(self, node: str) -> None:
        self.lab.kill(node)

    def proofs(self) -> list[Proof]:
        """The containers ended by the signal, and by nothing else."""
        return [self._dead(node) for node in self.nodes]

    def _dead(self, node: str) -> Proof:
        found = self.lab.state_of(node)
        return Proof(
            what=f"{node} is {self.said}",
            expected=f"exited with status {self.status}",
            found="{} with status {}".format(*found),
            ok=found == ("exited", self.status),
        )

    def undo(self) -> None:
        self.each(self.lab.start_again)

    def proofs_of_end(self) -> list[Proof]:
        return self.runs_again()
