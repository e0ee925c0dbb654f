"""MySQL Group Replication with a single primary: healthy when every node is ONLINE in one group of all."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import msgspec

from replication_lab.model.core.errors import LabError, OutcomeUnknown
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.evidence import View
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.measuring import Watch
from replication_lab.model.lab.succession import TakenOver
from replication_lab.model.lab.toxic import Toxic
from replication_lab.probes.bottleneck import QueueLoad
from replication_lab.probes.commit_latency import none_too_fast
from replication_lab.replication import role_changes
from replication_lab.replication.kind import Nodes, register
from replication_lab.replication.role_changes import NodeState
from replication_lab.world import clock, requests_made
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.server import Server

ONLINE, UNREACHABLE = "ONLINE", "UNREACHABLE"
PRIMARY, SECONDARY, NO_MAJORITY = "PRIMARY", "SECONDARY", "no majority"
LOCAL, FORCE = "group_replication_local_address", "group_replication_force_members"
FORCED_SECONDS = 180
MEMBERS = "SELECT member_id, member_host, member_state, member_role FROM performance_schema.replication_group_members"
# The view's number is in the statistics of each member; the group's name identifies its history.
SELF = (
    "SELECT @@server_uuid AS me, @@group_replication_group_name AS name, MAX(view_id) AS view_id, "
    "MAX(COUNT_TRANSACTIONS_IN_QUEUE) AS certify, MAX(COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE) AS apply "
    "FROM performance_schema.replication_group_member_stats WHERE member_id = @@server_uuid"
)


# What each member has to apply, as members tell each other every second, and the number that sets flow control.
QUEUES = (
    "SELECT member_host, s.COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE AS length, "
    "@@group_replication_flow_control_applier_threshold AS most FROM performance_schema.replication_group_members "
    "JOIN performance_schema.replication_group_member_stats s USING (member_id) "
    "WHERE @@group_replication_flow_control_mode = 'QUOTA'"
)


@dataclass(frozen=True)
class GroupMember:
    """A node's view of its group: its own state and role, and those of every node that it lists.

    `queues` are the transactions that wait here to be certified, and those of others that wait to be applied.
    """

    state: str
    role: str
    history: str
    view_id: str
    states: Mapping[str, str]
    primaries: tuple[str, ...]
    queues: Mapping[str, int]

    @property
    def reached(self) -> list[str]:
        return sorted(name for name, state in self.states.items() if state != UNREACHABLE)

    @property
    def has_majority(self) -> bool:
        return 2 * len(self.reached) > len(self.states)

    def __str__(self) -> str:
        """Return PRIMARY or SECONDARY for a node that is ONLINE in a majority; else the reason why it is neither."""
        if self.state != ONLINE:
            return self.state
        return self.role if self.has_majority else NO_MAJORITY


def member(server: Server, node_at: Callable[[str], str] = str) -> GroupMember:
    """Return a server's view of its group; LabError if it does not answer or has no Group Replication.

    `node_at` returns the node at a host as members report it.
    """
    own, *_ = server.rows(SELF)
    rows = server.rows(MEMBERS)
    mine = [row for row in rows if row["member_id"] == own["me"]]
    return GroupMember(
        state=mine[0]["member_state"] if mine else "OFFLINE",
        role=mine[0]["member_role"] if mine else "",
        history=own["name"] or "",
        view_id=own["view_id"] or "",
        states={node_at(row["member_host"]): row["member_state"] for row in rows if row["member_host"]},
        primaries=tuple(node_at(row["member_host"]) for row in rows if row["member_role"] == PRIMARY),
        queues={name: int(own[name]) for name in ("certify", "apply") if own[name] is not None},
    )


@register("group")
class Group(Nodes):
    """Members of one group, of which one accepts writes."""

    roles = frozenset({"member"})
    whole = "ONLINE in one group"
    elects = True
    refuses = role_changes.REFUSES
    restarts_in_turn = True
    # A group takes it over when it is bootstrapped, and refuses a member with another value.
    restarts_whole = frozenset({"group_replication_paxos_single_leader"})
    images = ("sidecar",)
    experiment = ""
    # A member that returns before the group has expelled it cannot join.
    killed_seconds = 40
    waits_on = "majority"
    why_fixed = "it is a cluster"
    good = f"{PRIMARY}|{SECONDARY}"
    doubtful = "RECOVERING"
    explains = "group"

    @classmethod
    def accepts_writes(cls, state: str) -> bool:
        return state == PRIMARY

    def member(self, name: str) -> GroupMember:
        """Return a node's view of its group, with the nodes' names."""
        return member(self.server(name), self.lab.node_at)

    def writer(self) -> Server:
        """Return the primary, as the first node that is ONLINE names it."""
        return self.server(primary(self.lab))

    def written_at(self) -> str:
        with suppress(LabError):
            return primary(self.lab)
        return super().written_at()

    def state(self, name: str, _role: str) -> NodeState:
        found = self.member(name)
        serves = str(found) in (PRIMARY, SECONDARY)
        refuses = "" if serves else ": accepts no write"
        said = (found.role.lower() if serves else str(found).lower()) if found.state == ONLINE else "not a member"
        seen = f"sees {' '.join(found.reached) or 'no node'} in view {found.view_id}"
        return NodeState(f"{found.state}, {said}{refuses}, {seen}", found.reached)

    def hindrance(self, name: str) -> str:
        found = self.answering(self.member)
        serving = {each: view for each, view in found.items() if str(view) in (PRIMARY, SECONDARY)}
        if name not in serving:
            return str(found.get(name, "does not answer"))
        # A member that was frozen has its last view for a moment, though its group has excluded it.
        return "" if len({each.view_id for each in serving.values()}) == 1 else "not in the view of its group"

    def queues(self) -> dict[str, QueueLoad]:
        rows = next(iter(self.answering(lambda name: self.server(name).rows(QUEUES)).values()), [])
        return {self.lab.node_at(row["member_host"]): QueueLoad(int(row["length"]), int(row["most"])) for row in rows}

    def lost_majority(self) -> LabError | None:
        found = self.answering(self.member)
        states = {name: str(each) for name, each in found.items()}
        first = next((name for name, state in states.items() if state == NO_MAJORITY), "")
        if not first or {PRIMARY, SECONDARY} & set(states.values()):
            return None
        one = found[first]
        sql = f"./lab sql {first} --lab {self.lab.name} -e"
        force = f'{sql} "{self._forces(one, found)}"'
        # Its answer may come later than the client waits, and a second one is refused as "already ongoing".
        then = f"""once ./lab status says that it is primary: {sql} "SET GLOBAL {FORCE} = ''\""""
        return LabError(
            f"{NO_MAJORITY}: {first} reaches {len(one.reached)} of {len(one.states)} members",
            "a majority of the members",
            f"if no other node accepts writes: {force} (only once: it may take more than a minute); {then}",
        )

    def _forces(self, one: GroupMember, answering: Collection[str]) -> str:
        """Return the statement by which the members that a member reaches go on without the others."""
        addresses = [str(self.server(name).value(f"SELECT @@{LOCAL}")) for name in one.reached if name in answering]
        return f"SET GLOBAL {FORCE} = '{','.join(addresses)}'"

    def view(self, name: str) -> View:
        found = self.member(name)
        return View(str(found), len(found.reached), found.history, queues=dict(found.queues))

    def is_whole(self, name: str) -> bool:
        """Return whether all nodes are ONLINE in one view with one primary, and this one acts as its role says.

        An expelled node that reaches the others again lists all as ONLINE for a moment, in the view that it last had.
        """
        found = {each: self.member(each) for each in self.names}
        return self._are_one(found) and _is_as_its_role(self.server(name), found[name])

    def _are_one(self, found: Mapping[str, GroupMember]) -> bool:
        """Return whether members report one view, in which all nodes are ONLINE and one is the primary."""
        views = {(each.view_id, each.primaries) for each in found.values()}
        online = all(each.states == dict.fromkeys(self.names, ONLINE) for each in found.values())
        return online and len(views) == 1 and all(len(each.primaries) == 1 for each in found.values())

    def prove(self, toxics: Mapping[str, Toxic]) -> list[Proof]:
        """Prove one view with one primary, a commit that waits for a majority, and a row that every node has."""
        # Not its own: that one lets the first node become the primary again, and a proof changes nothing.
        super().wait_until_together()
        first = self.writer()
        trip = self.majority_trip(first.name, toxics)
        found = {name: self.member(name) for name in self.names}
        views, primaries = ({getattr(each, what) for each in found.values()} for what in ("view_id", "primaries"))
        said = ", ".join(f"{name} {each.state} {each.role}" for name, each in found.items())
        return [
            Proof(
                f"one group of {len(found)} with one primary",
                f"{said}; views reported: {len(views)}, primaries reported: {len(primaries)}",
                self._are_one(found),
            ),
            self.prove_commit_waits(first, "a majority", trip),
            self.prove_rows_arrive(first, first.name),
        ]

    def majority_trip(self, name: str, toxics: Mapping[str, Toxic]) -> float:
        """Return the round trip in ms to the nearest peers that make a majority with `name`."""
        # Of three nodes the nearest peer makes two; the node itself needs no trip.
        return sorted(self.round_trips(name, toxics))[len(self.names) // 2 - 1]

    def wait_until_together(self) -> None:
        """Wait until all are ONLINE, and let the topology's first node be the primary again."""
        super().wait_until_together()
        self.take_over(self.lab.topology.source.name)

    def wait_until_caught_up(self) -> None:
        position = BinaryLog(self.writer()).position()
        for name in self.names:
            Replica(self.server(name)).wait_for(position)

    @contextmanager
    def arranged(self, case: Case) -> Iterator[Watch]:
        yield _GroupWatch(self, self.majority_trip(self.written_at(), case.toxics))

    def transactions(self, name: str) -> int | None:
        return self._by_gtids(name)

    @staticmethod
    def returned(log: str) -> tuple[str, int] | None:
        """Return how a node came back by its log: binary log, clone or led, and 0 writesets; None if it never left."""
        if "[group] leads" in log:
            return "led", 0
        if "Cloning from a remote group donor" in log:
            return "clone", 0
        return ("binary log", 0) if "Incremental recovery from a group donor" in log else None

    def take_over(self, name: str, allow_data_loss: bool = False) -> TakenOver:  # noqa: ARG002 - a group loses nothing
        """Make this node the primary, as an operator would; LabError without a majority, with what restores it."""
        self.lab.topology.node(name)
        if lost := self.lost_majority():
            raise lost
        done = TakenOver(primary(self.lab), name)
        if done.old == name:
            return done
        uuid = self.server(name).value("SELECT @@server_uuid")
        with suppress(OutcomeUnknown), requests_made.noted("primary", name):
            # The group's state, not the answer, says whether it was done.
            self.writer().execute(f"SELECT group_replication_set_as_primary('{uuid}')")
        clock.wait_until(lambda: self._serves_as_primary(name), f"{name} to be primary")
        return done

    def take_over_after_loss(self, name: str) -> TakenOver:
        """Without a majority, force the membership of the members that are left, as an operator would."""
        if self.lost_majority():
            server, found = self.server(name), self.answering(self.member)
            with suppress(OutcomeUnknown), requests_made.noted("primary", name):
                # Its answer may come later than anybody waits; a second statement would be refused as "ongoing".
                server.execute(self._forces(found[name], found))
            clock.wait_until(lambda: not self.lost_majority(), f"{name} to have a majority", FORCED_SECONDS)
            server.execute(f"SET GLOBAL {FORCE} = ''")
        return self.take_over(name)

    def switch_over(self, name: str) -> TakenOver:
        began = clock.timer()
        return msgspec.structs.replace(self.take_over(name), seconds=clock.timer() - began)

    def _serves_as_primary(self, name: str) -> bool:
        """Return whether all members that answer name this node, and it accepts writes; another may be down."""
        found = self.answering(self.member)
        agreed = {each.primaries for each in found.values() if str(each) in (PRIMARY, SECONDARY)} == {(name,)}
        return agreed and str(found.get(name)) == PRIMARY and _is_as_its_role(self.server(name), found[name])


@dataclass
class _GroupWatch(Watch):
    """A group under a load; `proofs` says whether it is whole after it, and no commit was too fast.

    `round_trip_ms` is what the toxics add between the nearest members of a majority: each commit waits for one.
    """

    group: Group
    round_trip_ms: float

    def proofs(self, _commits: int, fastest_ms: float | None = None) -> list[Proof]:
        return [*none_too_fast(fastest_ms, self.round_trip_ms), *self.group.prove({})]


def _is_as_its_role(server: Server, found: GroupMember) -> bool:
    """Return whether a primary accepts writes by now, or a secondary refuses them."""
    return bool(server.value("SELECT @@GLOBAL.super_read_only")) == (found.role != PRIMARY)


def primary(lab: Lab) -> str:
    """Return the name of the primary, as a node that is ONLINE in a majority reports it; LabError if there is none."""
    for node in lab.topology.nodes:
        try:
            found = member(lab.node(node.name).server(), lab.node_at)
        except LabError:
            continue
        if str(found) in (PRIMARY, SECONDARY) and found.primaries:
            return found.primaries[0]
    raise LabError(f"no node of {lab.name} reports a primary", "a majority that is ONLINE", "./lab status")
