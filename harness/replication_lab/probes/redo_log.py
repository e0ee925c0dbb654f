"""The steady cycle of a server's redo log: only there does a change cost what it costs in the long run."""

from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.world.mysql.server import Server

# Tolerated change of the checkpoint age, as a share of the redo written meanwhile, and as a share of the whole log:
# pages are written in batches, so that the age always varies by a small share of the log.
OWED, BATCH = 0.2, 0.05


@dataclass(frozen=True)
class Redo:
    """The redo log: bytes written since the server was created, and bytes whose pages are not on the disk yet."""

    written: int
    age: int


def read_redo(server: Server) -> Redo:
    """Return the state of a server's redo log, by its counters."""
    names = server.dialect.redo
    if names is None:
        unknown = f"the size of {server.name}'s redo log is unknown"
        raise LabError(unknown, "redo in dialects.yaml", "./lab list engines")
    found = server.counters(names.written, names.checkpoint)
    return Redo(found[names.written], found[names.written] - found[names.checkpoint])


def was_steady(server: str, before: Redo, after: Redo) -> Proof:
    """Prove that a server's redo log was in its steady cycle from the beginning of a measurement to its end."""
    grown = after.age - before.age
    owed = grown / max(after.written - before.written, 1)
    ok = abs(owed) <= OWED or abs(grown) <= BATCH * before.age
    return Proof(
        what=f"the checkpoint age of {server} was steady during the load",
        expected=f"a change of at most {OWED:.0%} of the redo written meanwhile, or {BATCH:.0%} of the age",
        found=f"a change of {owed:+.0%} of the redo written meanwhile",
        ok=ok,
        # A page cleaner that got too little CPU time owes more pages, and catches up later.
        slow=not ok,
    )
