"""The evidence of a drill: each fault and its proofs, the nodes' views, the final rows."""

from collections.abc import Iterable, Sequence

import msgspec

from replication_lab.model.core.event import Event, Opening
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.observation import Happened, Observation, unproved
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.application import Application
from replication_lab.model.drill.drill import CHANGES, Drill, Step
from replication_lab.model.drill.history import Attempt, Copy
from replication_lab.model.lab.succession import TakenOver

# The pattern of forbidden.yaml for a replica whose source sends it nothing.
REFUSED_BY_SOURCE = "fatal-from-source"


class View(msgspec.Struct, frozen=True):
    """The state that a node reported (Primary, replicating, semi-sync ON, …), or the error if it did not answer.

    In a cluster also the number of nodes that it saw and its history (UUID); for a replica its reported lag; for a
    machine with a replicated disk the state of both disks. `queues` are the transactions that wait there, by the queue:
    of a node of Galera `receive` and `send`, of a member of a group `certify` and `apply`.
    """

    says: str = ""
    size: int = 0
    history: str = ""
    error: str = ""
    behind_s: int | None = None
    disks: str = ""
    queues: dict[str, int] = {}

    def __str__(self) -> str:
        size, disks = f" of {self.size}" if self.size > 1 else "", f", {self.disks}" if self.disks else ""
        return self.error or f"{self.says}{size}{disks}"


class Looked(msgspec.Struct, frozen=True):
    """A node's view while the clients wrote, `at` seconds after they began."""

    at: float
    node: str
    view: View


def longest_queues(looked: Iterable[Looked]) -> dict[str, int]:
    """Return the most transactions that waited in each queue at any of these readings, by QUEUE_queue.NODE."""
    read = [(f"{name}_queue.{one.node}", many) for one in looked for name, many in one.view.queues.items()]
    return {name: max(many for queue, many in read if queue == name) for name, _ in sorted(read)}


class Position(msgspec.Struct, frozen=True):
    """How far a node of a source and its replicas was.

    `received` are the transactions that it had received or committed, `unapplied` those of them that it had not
    committed; None if its server does not count them. `error` is the number of its applier's error, 0 without one.
    """

    replicates: bool
    received: int | None = None
    unapplied: int | None = None
    error: int = 0


class FaultEvidence(msgspec.Struct, frozen=True):
    """A fault and its times in seconds since the load began.

    `broke` is when its injection began, `struck` when all its parts had been injected, `held` when it was verified,
    `healed` when its recovery began, `whole` when all nodes were healthy, `gone` when its removal was verified.

    `views` are the states that the nodes reported just before the recovery, `positions` how far they were then.
    `errant` are the rows of the ledger, as ranges of ids, that a node had and the promoted one did not, before they
    were discarded. `refused` is why a failover was refused. `upgrades` are the nodes that were to run another server,
    with what that server said if it did not start. `promoted` are the nodes that began to take writes under a
    manager, each with the time, and `left` is what that manager left for a person to do. `ended` are the nodes whose
    server ended though the fault does not end servers; the recovery started it again.
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
    positions: dict[str, Position] = {}
    errant: dict[str, list[tuple[int, int]]] = {}
    refused: str = ""
    upgrades: dict[str, str] = {}
    promoted: list[tuple[float, str]] = []
    left: list[str] = []
    ended: list[str] = []

    @property
    def change_s(self) -> float | None:
        """The seconds that a planned change took, until every node had it; None for any other fault."""
        planned = any(spec.fault in CHANGES for spec in self.step.fault_specs)
        return self.struck - self.broke if planned and self.struck is not None else None

    @property
    def window(self) -> tuple[float, float]:
        """Begin and end of the time in which all parts of the fault acted: an injection takes a moment.

        The injection of a planned change is the change.
        """
        return (self.broke if self.struck is None or self.change_s is not None else self.struck), self.healed


class Return(msgspec.Struct, frozen=True):
    """The return of a node: by IST, SST, led (it went first) or nothing (it had missed nothing).

    `writesets` is the number of writesets that it received. `synced_s` is the time after the fault was undone.
    """

    by: str
    writesets: int
    synced_s: float


class NoiseWhile(msgspec.Struct, frozen=True):
    """The noise during a part of a drill's load, from `begin` to `end` seconds after the clients began."""

    begin: float
    end: float
    noise: Noise

    def __str__(self) -> str:
        return f"from {self.begin:.1f} to {self.end:.1f} s {self.noise.why or 'the machine was noisy'}"


class ThroughEndpoint(msgspec.Struct, frozen=True):
    """What clients met behind the endpoint, named with its settings.

    `servers` are the nodes of the servers, by ID@HOSTNAME. `strangers` are connections that did not come from the
    endpoint, or reached no node, in words. `told` is what the endpoint's log said of the nodes meanwhile.
    """

    name: str
    servers: dict[str, str]
    strangers: list[str] = []
    told: list[Happened] = []


class DrillsOpening(Opening, frozen=True, kw_only=True, tag="drills"):
    """The first line of a run of drills: the drills, and the topology of their labs."""

    topology: str
    drills: list[Drill]


class Evidence(Event, frozen=True, kw_only=True, tag="evidence"):
    """Everything about one finished drill except its ledger; `load` is its begin and end in seconds.

    `compared` is the result of comparing the copies below their rows: differing_kib of two replicated disks. `harness`
    is the cost of the clients: memory_mib is the most that their process has used, cpu_share its share of one CPU.
    `doubts` are reasons to distrust all of its figures.

    In a run that answers a question, `engine` and `case` are those that the drill was run for, and `run` is the
    repetition, from 1. `ledger` is the name of its ledger's file. `conditions` prove that the case's settings applied
    just before the first fault, and at the end as well unless a fault undid them. `looked` are the nodes' views, about
    one a second of each; records of older versions have none. `application` are the answers of the user's own probe.
    `noise` is that of the load before, during and after each fault; records of older versions have none. `taken_over`
    are the changes of the node that accepts writes, with what each is known to have lost; older records have none.
    `unrecovered` is why the nodes did not become healthy after a fault was undone; the drill ends there, and no copy is
    read. `observations` are what witnesses saw all through the load, since schema 7. `counted_tables` are the user's
    tables whose rows only the clients insert, or only they delete, with the rows before the load. With
    `from_injection` the time without service begins with the injection of the first fault; in older records when it had
    returned. `endpoint` is what clients met behind the endpoint, if they used one.
    `writable` are the times, from and until, at which each server of a source and its replicas said that it takes
    writes; a drill with an endpoint or a manager has them. `unread` are the times in which one that may have taken
    writes was not read for too long, `read_every_s` is the longest time between two other readings; older records have
    neither. `uncounted_tables` are the user's tables that the clients change and that are no counted ones.
    """

    drill: Drill
    at: str
    wait_before: float = 0
    load: tuple[float, float] = (0.0, 0.0)
    acted: list[FaultEvidence] = []
    before: dict[str, View] = {}
    after: dict[str, View] = {}
    returns: dict[str, Return] = {}
    copies: list[Copy] = []
    counted: dict[str, int] = {}
    compared: dict[str, int] = {}
    promoted_s: float | None = None
    taken_over: list[TakenOver] = []
    forbidden: list[str] = []
    harness: dict[str, float] = {}
    doubts: list[str] = []
    engine: str = ""
    case: str = ""
    run: int = 0
    ledger: str = ""
    conditions: list[Proof] = []
    looked: list[Looked] = []
    application: Application | None = None
    noise: list[NoiseWhile] = []
    observations: list[Observation] = []
    unrecovered: str = ""
    counted_tables: dict[str, int] = {}
    from_injection: bool = False
    endpoint: ThroughEndpoint | None = None
    writable: dict[str, list[tuple[float, float]]] = {}
    unread: dict[str, list[tuple[float, float]]] = {}
    read_every_s: float = 0.0
    uncounted_tables: list[str] = []

    @property
    def mended(self) -> float:
        """The time when the last fault was undone; the end of the load if there was none."""
        return max((acted.healed for acted in self.acted), default=self.load[1])

    @property
    def spoilt(self) -> str:
        """Why the nodes may not be as before the drill; empty if they are."""
        return next(iter(self.doubts), self.unrecovered)

    @property
    def failed_proofs(self) -> list[str]:
        """The failed proofs in words: a fault did not act, or is still there; a condition did not apply."""
        proofs = [*self.conditions, *(proof for acted in self.acted for proof in acted.proofs)]
        strangers = self.endpoint.strangers if self.endpoint else []
        return [*(proof.doubt for proof in proofs if proof.doubt), *strangers]

    def answered(self, history: Sequence[Attempt]) -> Sequence[Attempt]:
        """Return the history with the node of each statement that a server behind the endpoint had got."""
        if self.endpoint is None:
            return history
        nodes = self.endpoint.servers
        return [msgspec.structs.replace(one, node=nodes.get(one.server, one.node)) for one in history]

    def unproved(self, obligations: list[str]) -> list[str]:
        """Return why these obligations, and those that were observed besides, are not proved for all of the load."""
        return unproved(obligations, self.observations, self.load)

    @property
    def injected(self) -> float | None:
        """When the injection of the first fault began; None if there was none, or times begin when it had returned."""
        return self.acted[0].broke if self.acted and self.from_injection else None

    @property
    def forbidden_lines(self) -> list[str]:
        """The lines of servers' logs that none may contain.

        Not that a replaced node with rows of its own was refused by the new source: only so the two histories stay
        apart, and that it was not taken back is counted as left to do.
        """
        ahead = {node for acted in self.acted for node, rows in acted.errant.items() if rows}
        allowed = tuple(f"{node}: {REFUSED_BY_SOURCE}: " for node in ahead)
        return [line for line in self.forbidden if not (line.startswith(allowed) and "error 1236" in line)]

    @property
    def windows(self) -> list[tuple[float, float]]:
        return [acted.window for acted in self.acted]
