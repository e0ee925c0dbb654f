"""Whether a server's redo log is in its steady cycle: only then does a change cost what it does in the end."""

from dataclasses import dataclass

from replication_lab.model.proof import Proof
from replication_lab.world.mysql.redo_log import Redo

# Of what was written to the log meanwhile: pages of so much were still owed to the disk, or were paid from before.
# Pages are written in batches, so that a small share of the whole log is always a little more or less.
OWED, BATCH = 0.2, 0.05


@dataclass(frozen=True)
class Cycle:
    """A server's redo log at the beginning and at the end of a measurement."""

    server: str
    before: Redo
    after: Redo

    @property
    def owed(self) -> float:
        """The change of the checkpoint's age, as a share of what was written."""
        return (self.after.age - self.before.age) / max(self.after.written - self.before.written, 1)

    @property
    def proof(self) -> Proof:
        return Proof(
            what=f"the redo log of {self.server} is in its steady cycle",
            expected=f"pages of all that was written reach the disk, {OWED:.0%} more or less",
            found=f"{self.owed:+.0%} of them still to be written",
            ok=abs(self.owed) <= OWED or abs(self.after.age - self.before.age) <= BATCH * self.before.age,
        )
