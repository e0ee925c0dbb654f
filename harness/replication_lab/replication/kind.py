"""The methods that every kind of replication has: its nodes' state, when they are healthy, whether copies are equal."""

import re
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import ClassVar, TypeVar

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.progress import Tell
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.evidence import View
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.measuring import Watch
from replication_lab.model.lab.toxic import Toxic
from replication_lab.model.live.view import Level
from replication_lab.probes.bottleneck import QueueLoad
from replication_lab.probes.commit_latency import TABLE, CommitLatency, per_commit, waited
from replication_lab.replication.role_changes import ChangesRoles, NodeState, quiet
from replication_lab.world import at_once, clock
from replication_lab.world.disks.spindle import Spindle
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync
from replication_lab.world.mysql.server import Server, plain

Answer = TypeVar("Answer")
LOOK_SECONDS = 3
SILENT = View(error="does not answer")
# The fastest of these has to have waited. Each takes a round trip.
COMMITS = 2


class Nodes(ChangesRoles):
    """The nodes of a lab; a kind defines `view` and `is_whole`, its proofs, and which of its roles change."""

    # The roles that nodes can have, by how the services of the Compose file name each other.
    roles: ClassVar[Set[str]] = frozenset({"source", "relay", "replica"})
    # The roles of nodes that apply what is written on another node: their lag is shown.
    followers: ClassVar[Set[str]] = frozenset({"relay", "replica", "member"})
    # The word for the nodes' state when all are healthy.
    whole: ClassVar[str] = "serving"
    # What it needs from images/ besides the server and Toxiproxy.
    images: ClassVar[Sequence[str]] = ()
    # Whether a source waits until a replica has acknowledged a commit.
    acknowledges: ClassVar[bool] = False
    # The experiment that a user of such a lab may run next; empty if none measures this kind.
    experiment: ClassVar[str] = "semisync_wan"
    # The command that shows the effect of a failed disk of a node, and the one that puts a repaired disk back into use;
    # empty if it is in use already.
    after_disk_failure: ClassVar[str] = "./lab disk check {node}"
    after_disk_healed: ClassVar[str] = ""
    # Whether each node is a virtual machine, with a disk of its own that other storage cannot replace.
    in_machines: ClassVar[bool] = False
    # The kinds of options of the replication that a drill may change, as its file names them.
    options: ClassVar[Sequence[str]] = ()
    # Whether its nodes are restarted one after another, so that the others keep the cluster.
    restarts_in_turn: ClassVar[bool] = False
    # The variables that take effect only when all of its nodes are started again together.
    restarts_whole: ClassVar[Set[str]] = frozenset()
    # How long a killed node of an attached project stays down.
    killed_seconds: ClassVar[float] = 3
    # Whether replicas follow a source by its binary log: nodes may run different servers, and replication can be
    # switched off or to semi-sync.
    follows_a_source: ClassVar[bool] = False
    # Whether a node may get a server of another version while the others run.
    replicates_between_versions: ClassVar[bool] = False
    # The protocols of DRBD that a question may choose; empty without a replicated disk.
    protocols: ClassVar[Sequence[str]] = ()
    # The command that moves the service, where clients reach it at an address of its own.
    moves_service: ClassVar[str] = ""
    # Whether clients may write on every node.
    writes_anywhere: ClassVar[bool] = False
    # Why `lab ask` cannot switch its replication off or to semi-sync; empty if replicas follow a source.
    why_fixed: ClassVar[str] = ""
    # Which of the links that carry a commit it waits for: a name in WAITS of live/sampler.py; empty if for none.
    waits_on: ClassVar[str] = ""
    # The states (View.says) of a node that is well, and of one that is not yet or only in part, as regular expressions;
    # a node in another state is not well.
    good: ClassVar[str] = "serving"
    doubtful: ClassVar[str] = ""
    # The macro of live/explained.txt.j2 that has the sentences about its states.
    explains: ClassVar[str] = ""

    def __init__(self, lab: Lab):
        self.lab = lab
        self.names = [node.name for node in lab.topology.nodes]

    def server(self, name: str) -> Server:
        return self.lab.node(name).server()

    def writer(self) -> Server:
        """Return the server on which tables are created."""
        return self.server(self.lab.topology.source.name)

    def written_at(self) -> str:
        """Return the node at which clients write now; the topology's first node if that is unknown."""
        return self.lab.topology.source.name

    def answers(self, name: str) -> bool:
        """Return whether the server on a node answers; LabError if it does not."""
        return bool(self.server(name).version())

    def client(self, name: str, terminal: bool = True) -> list[str]:  # noqa: ARG002 - as for `inside`
        """Return the command of a client in a node's container; the password is in MYSQL_PWD."""
        found = self.lab.node(name).run("sh", "-c", "command -v mariadb || true").strip()
        return ["mariadb" if found else "mysql"]

    def inside(self, _service: str, command: Sequence[str], terminal: bool = False) -> list[str]:  # noqa: ARG002
        """Return a command of a service's container as it has to be run there; `terminal`: with the caller's own."""
        return [*command]

    def machines(self) -> dict[str, str]:
        """Return the launcher of each node's virtual machine, if the nodes are some."""
        return {}

    def disks(self, _name: str) -> dict[str, Spindle]:
        """Return the emulated disks under replication at a node, by name."""
        return {}

    def set_options(self, options: Mapping[str, Sequence[str]]) -> None:
        """Set options of the replication, by kind, or without any go back to those that a node starts with."""
        raise NotImplementedError

    def compared(self, _tell: Tell = quiet) -> dict[str, int]:
        """Compare copies below their rows; return what differs, by the name of its figure. `tell` gets the progress."""
        return {}

    @staticmethod
    def returned(_log: str) -> tuple[str, int] | None:
        """Return how a node came back by its log since then, and the writesets it was sent; None if it never left."""
        return None

    def counted(self) -> dict[str, int]:
        """Return the servers' counters that a drill compares before and after."""
        return {}

    def arrangement(self) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
        """Return each node's role, and the links as (name, source, target): the current ones if they can change."""
        topology = self.lab.topology
        roles = {node.name: node.role for node in topology.nodes}
        return roles, [(link.name, link.source, link.target) for link in topology.links]

    def commit_timeout_s(self, _name: str) -> float | None:
        """Return how long commits on this node wait before they go on without replicas; None if that never happens."""
        return None

    def service(self) -> str:
        """Return where the service is that has an address of its own, in words; empty if there is none."""
        return ""

    def warnings(self) -> list[str]:
        """Return what is wrong with the lab and in no node's own state."""
        return self.separate_histories(small=True)

    def state(self, name: str, role: str) -> NodeState:
        server = self.server(name)
        said = [found.words(self._missing(name))] if (found := Replica(server).status()) else []
        if role != "replica":
            semisync = SemiSync(server).status()
            if semisync.enabled:
                said.append(semisync.words())
            elif role == "source":
                said.append("semi-sync off")
        return NodeState("; ".join(said))

    def source_of(self, name: str) -> str:
        """Return the node that this one replicates from now, or an empty string."""
        return next((source for _, source, target in self.arrangement()[1] if target == name), "")

    def _missing(self, name: str) -> int:
        """Return the transactions of its source that a replica has not applied; 0 if they cannot be counted."""
        source = self.source_of(name)
        with suppress(LabError):
            if source and self.server(source).dialect.transactions and self.server(name).dialect.transactions:
                # The source first: what it commits meanwhile is not missing yet.
                written = BinaryLog(self.server(source)).transactions()
                return max(written - BinaryLog(self.server(name)).transactions(), 0)
        return 0

    def of_each(self, ask: Callable[[str], Answer]) -> dict[str, Answer]:
        """Return each node's answer; all are asked at once."""
        return dict(zip(self.names, at_once.of_each(ask, self.names), strict=True))

    def looks(self) -> dict[str, View]:
        """Return each node's current view; SILENT of one that does not answer."""
        return dict.fromkeys(self.names, SILENT) | self.answering(self.view)

    def soon(self, ask: Callable[[str], Answer], name: str) -> Answer | None:
        """Return a node's answer; None if there is none after LOOK_SECONDS."""
        return clock.soon(partial(ask, name), LOOK_SECONDS)

    def answering(self, ask: Callable[[str], Answer]) -> dict[str, Answer]:
        """Return the answer of each node that answers soon; all are asked at once.

        A frozen one is not: it never answers, and would be frozen for longer meanwhile.
        """
        frozen = {name for name, state in self.lab.states().items() if state == "paused"}
        found = self.of_each(lambda name: None if name in frozen else self.soon(ask, name))
        return {name: said for name, said in found.items() if said is not None}

    def stands(self, name: str) -> bool:
        """Return whether the node is healthy; False if it does not answer."""
        with suppress(LabError):
            return self.is_whole(name)
        return False

    def ended(self, _name: str) -> str:
        """Return the error with which a node has stopped replicating for good; an empty string if it has not."""
        return ""

    def refuse_ended(self, name: str) -> None:
        """Raise LabError if a node has stopped replicating for good: it is in vain to wait for it.

        A failover manager stops a replica while it changes what that one follows: there it is waited for.
        """
        if (why := self.ended(name)) and not self.lab.manager:
            raise LabError(f"{name} has stopped replicating: {why}", f"{name} {self.whole}", f"./lab sql {name}")

    def hindrance(self, _name: str) -> str:
        """Return why a node whose server answers serves no client; an empty string if it serves."""
        return ""

    def queues(self) -> dict[str, QueueLoad]:
        """Return what each member of a cluster has received and not applied; empty for any other kind."""
        return {}

    def lost_majority(self) -> LabError | None:
        """Return the error for a cluster in which no node serves until an operator acts; None for any other."""
        return None

    def separate_histories(self, small: bool = False) -> list[str]:  # noqa: ARG002 - only a cluster can be two
        """Return what shows that nodes were written separately and do not have the same rows; empty if nothing does.

        With `small`, rows are compared only if that is quick.
        """
        return []

    def refuse_separate_histories(self) -> None:
        """Raise LabError if nodes were written separately."""
        if found := self.separate_histories():
            raise LabError(
                "; ".join(found),
                "nodes with the same rows",
                f"compare their rows, write what is missing, or: ./lab down --lab {self.lab.name}",
            )

    def view(self, name: str) -> View:
        raise NotImplementedError

    def is_whole(self, name: str) -> bool:
        raise NotImplementedError

    def warm_up(self) -> None:
        """Create the table of the proofs and commit once, before the links are slow."""
        self.commit_latency(self.writer()).commits(1)

    def prove(self, _toxics: Mapping[str, Toxic]) -> list[Proof]:
        """Prove what the topology promises; the argument maps its links to their toxics. `warm_up` comes before."""
        self.commit_latency(self.writer()).commits(1)
        return [self.prove_rows_arrive(self.writer(), "the source")]

    @classmethod
    def level_of(cls, state: str) -> Level:
        """Return how good a node's state is; UNKNOWN without one."""
        if not state:
            return Level.UNKNOWN
        if re.fullmatch(cls.good, state):
            return Level.GOOD
        return Level.WARN if re.fullmatch(cls.doubtful, state) else Level.BAD

    def transactions(self, _name: str) -> int | None:
        """Return the transactions that a node has committed or applied; None if copies are not made of transactions."""
        return None

    def _by_gtids(self, name: str) -> int | None:
        """Return the transactions that a node's GTIDs count; None without GTIDs."""
        server = self.server(name)
        return BinaryLog(server).transactions() if server.dialect.transactions else None

    @classmethod
    def accepts_writes(cls, _state: str) -> bool:
        """Return whether a node in this state accepts writes; False where states do not show that."""
        return False

    @classmethod
    def written_by(cls, states: Mapping[str, str], now: str) -> str:
        """Return the node where clients write, by the states that the nodes report; `now` if none says so.

        A node that accepts writes is not left for another one.
        """
        able = [name for name, state in states.items() if cls.accepts_writes(state)]
        return now if now in able or not able else able[0]

    @classmethod
    def makes_commits_wait(cls, state: str) -> bool:
        """Return whether commits wait for a link while the node that is written to has this state."""
        return cls.accepts_writes(state)

    def carries_writes(self, node: str, source: str, target: str) -> bool:  # noqa: ARG002 - only a pair needs it
        """Return whether a link from `source` to `target` carries what clients write on `node`."""
        return node == source

    def settle(self) -> None:
        """Bring the lab into the state of one that has run for a while, before a load is measured on it."""

    def arranged(self, case: Case) -> AbstractContextManager[Watch]:
        """Set the replication of a case within the block; yield the watch that proves it over a load."""
        raise NotImplementedError

    def prove_rows_arrive(self, source: Server, called: str) -> Proof:
        """Prove that every other node has the rows that were committed on this one, by the proofs before."""
        written = source.value(count := f"SELECT COUNT(*) FROM {TABLE}")
        self.wait_until_caught_up()
        found = self.of_each(lambda name: self.server(name).value(count))
        del found[source.name]
        return Proof(
            f"a row written on {called} arrives",
            ", ".join(f"{rows} of {written} on {name}" for name, rows in found.items()),
            written > 0 and all(rows == written for rows in found.values()),
        )

    def prove_commit_waits(self, source: Server, whom: str, trip: float) -> Proof:
        """Prove that no commit on this node is answered sooner than a round trip in ms."""
        fastest = min(self.commit_latency(source).commits(COMMITS))
        return Proof(f"a commit waits for {whom}", per_commit(fastest, trip), waited(fastest, trip))

    def commit_latency(self, server: Server) -> CommitLatency:
        """Return what times commits on a node, where clients run."""
        return self.lab.clients_place.make(CommitLatency, self.lab.for_clients(server.name))

    def round_trips(self, name: str, toxics: Mapping[str, Toxic]) -> list[float]:
        """Return the shortest round trip in ms of each link from this node; they were proved just before."""
        links = self.lab.topology.links_from(name)
        return [toxics[link.name].shortest_trip_ms if link.name in toxics else 0 for link in links]

    def wait_until_startable(self, names: Sequence[str], tell: Tell) -> None:
        """Wait until these stopped nodes can be started; `tell` gets what is waited for."""

    def wait_until_together(self) -> None:
        """Wait until every node replicates again after a restart."""
        clock.wait_until(lambda: all(map(self.stands, self.names)), f"{', '.join(self.names)} to be {self.whole}")

    def wait_until_caught_up(self) -> None:
        """Wait until every copy has what was committed before this call."""

    def differences(self) -> list[str]:
        """Return how copies differ from their source, or from their cluster's first node; empty where all are equal."""
        self.wait_until_caught_up()
        source = self.server(self.lab.topology.source.name)
        copies = [self.server(node.name) for node in self.lab.topology.replicas]
        return [found for copy in copies if (found := self.difference(copy, source))]

    def tables_of(self, server: Server) -> list[str]:
        """Return the tables of a node that its copies are compared by, as `SCHEMA`.`TABLE` with these quotes."""
        tables = server.tables()
        # The application of an attached project may be writing into its own tables.
        return [name for name in tables if name.startswith("`lab`.")] if isinstance(self.lab, AttachedLab) else tables

    def difference(self, copy: Server, source: Server) -> str:
        """Return in which tables a copy differs from its source, in words; empty if in none."""
        names = dict.fromkeys([*self.tables_of(source), *self.tables_of(copy)])
        tables = [table for table in names if source.checksum(table) != copy.checksum(table)]
        return f"{copy.name} differs from {source.name} in {', '.join(map(plain, tables))}" if tables else ""

    def takers(self, views: Mapping[str, View]) -> list[str]:
        """Return the nodes that take writes by these views, and have applied what was committed before this call."""
        return [name for name, view in views.items() if self.accepts_writes(view.says) and not self.hindrance(name)]

    def holders(self) -> dict[str, str]:
        """Return the nodes whose rows can be read, each with the node that its rows come from, or an empty string."""
        return dict.fromkeys(self.names, "")


# --- the kinds that there are -----------------------------------------------------------------------------------------

KINDS: dict[tuple[str, str], type[Nodes]] = {}  # by a topology's replication and manager
Kind = TypeVar("Kind", bound=type[Nodes])


def register(replication: str, manager: str = "") -> Callable[[Kind], Kind]:
    """Make a class the kind of these topologies; LabError if they have one already."""

    def registered(kind: Kind) -> Kind:
        known = KINDS.setdefault((replication, manager), kind)
        if known is not kind:
            raise LabError(
                f"{kind.__module__} registers {replication}, which {known.__module__} registers",
                "one kind for each replication and manager",
                "give one of them another name",
            )
        return kind

    return registered
