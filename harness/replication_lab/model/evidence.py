"""What happened in a drill: what each fault did and was seen to do, what the nodes said, the final rows."""

import msgspec

from replication_lab.model.drill import Drill, Step
from replication_lab.model.event import Event, Opening
from replication_lab.model.history import Copy
from replication_lab.model.proof import Proof


class View(msgspec.Struct, frozen=True):
    """What a node said of itself (Primary, replicating, semi-sync ON, …), or the error of one that did not answer.

    In a cluster also how many nodes it saw, and which history it had; of a replica, how far it says it is behind.
    """

    says: str = ""
    size: int = 0
    history: str = ""
    error: str = ""
    behind_s: int | None = None

    def __str__(self) -> str:
        return self.error or self.says + (f" of {self.size}" if self.size > 1 else "")


class Acted(msgspec.Struct, frozen=True):
    """A fault at work, in seconds since the load began: begun, seen to act, undone, all nodes whole, seen to be gone.

    `views` are the nodes' own just before it was undone, `struck` is when all of it had been done.
    """

    step: Step
    broke: float
    held: float
    healed: float
    whole: float
    gone: float
    proofs: list[Proof] = []
    views: dict[str, View] = {}
    struck: float | None = None

    @property
    def window(self) -> tuple[float, float]:
        """In which it acted all the time; a kill takes a moment."""
        return (self.broke if self.struck is None else self.struck), self.healed


class Return(msgspec.Struct, frozen=True):
    """How a node came back: by IST, SST, led (it went first) or nothing (it had missed nothing), and how many
    writesets it was sent; Synced so many seconds after the fault was undone."""

    by: str
    writesets: int
    synced_s: float


class Drills(Opening, frozen=True, kw_only=True, tag="drills"):
    """The first line of a run of drills: which were asked for, on labs of which topology."""

    topology: str
    drills: list[Drill]


class Evidence(Event, frozen=True, kw_only=True, tag="evidence"):
    """Everything about one drill that was done but its ledger. `load` is its begin and end in seconds.

    `compared` is what a comparison of the copies below their rows has found: differing_kib of two replicated disks.
    `harness` is what the clients cost: memory_mib, the most that their process has held, and cpu_share, of one CPU.
    `doubts` are reasons to believe none of its figures.
    """

    drill: Drill
    at: str
    wait_before: float = 0
    load: tuple[float, float] = (0.0, 0.0)
    acted: list[Acted] = []
    before: dict[str, View] = {}
    after: dict[str, View] = {}
    returns: dict[str, Return] = {}
    copies: list[Copy] = []
    counted: dict[str, int] = {}
    compared: dict[str, int] = {}
    promoted_s: float | None = None
    forbidden: list[str] = []
    harness: dict[str, float] = {}
    doubts: list[str] = []

    @property
    def mended(self) -> float:
        """When the last fault was undone; the end of the load where there was none."""
        return max((acted.healed for acted in self.acted), default=self.load[1])

    @property
    def windows(self) -> list[tuple[float, float]]:
        return [acted.window for acted in self.acted]
