"""A running drill: clients write, faults are injected on their schedule and undone, and all observations are kept.

    T0  baseline            all nodes are healthy; their views, counters and logs are kept; clients write
    T1  inject              each of the step's faults is injected at its time, until all have been       broke, struck
    T2  verified            each is proved to act for the step's seconds; another node may be promoted   held
    T3  recover             the faults are undone in reverse order; a replaced node rejoins              healed
    T4  healthy again       all nodes are healthy                                                        whole
    T5  verified recovered  each fault is proved to be removed                                           gone

T1 to T5 repeat with each step, and clients write all the time. On the right are the moments in `FaultEvidence`. After
the last step the clients stop, and the copies, the logs and the counters are compared with T0.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from replication_lab import faults, replication
from replication_lab.faults.schedule import FaultSchedule
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.progress import Tell
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.drill import Drill, Step
from replication_lab.model.drill.evidence import Evidence, FaultEvidence, NoiseWhile, Return
from replication_lab.model.drill.history import Copy
from replication_lab.model.experiment.measuring import ProofsOfNodes
from replication_lab.model.question.sql_load import Transaction
from replication_lab.probes import forbidden_logs
from replication_lab.probes.noise import NoiseMeter
from replication_lab.runner import drill_settings, node_logs
from replication_lab.runner.application import Probe
from replication_lab.runner.behind import Behind
from replication_lab.runner.succession import ByLab, ByManager, TakesWrites, errant_rows
from replication_lab.runner.watched import watching
from replication_lab.witnesses.witness import Witnesses, observing
from replication_lab.workloads.ledger import Ledger, wait_until_served
from replication_lab.world import clock, host, signals
from replication_lab.world.client_place import HERE
from replication_lab.world.docker.lab import Lab
from replication_lab.world.files import LineByLine
from replication_lab.world.mysql.client import ApplicationClient, ClientsOf
from replication_lab.world.mysql.server import Server

WHOLE_SECONDS = 240


@dataclass(frozen=True)
class DrillRequest:
    """A drill to be run, with its seed and what a caller adds to it.

    `conditions` proves further conditions of the drill on given nodes. It is called for all nodes just before the first
    fault, and at the end for those that no fault ended. `transactions` are what the clients run instead of one insert.
    `probe` is asked all through the load.
    """

    drill: Drill
    seed: int
    conditions: ProofsOfNodes = lambda _nodes: []
    transactions: Sequence[Transaction] = ()
    probe: Probe | None = None

    @property
    def wait_before(self) -> float:
        """The seconds before the first fault."""
        return self.drill.wait_before(self.seed)


def run_drill(lab: Lab, asked: DrillRequest, ledger_file: Path, tell: Tell) -> Evidence:
    """Run one drill on a lab that is up; return its evidence. A failure of the lab is a doubt, not an error."""
    tell(f"{asked.drill.name}: {asked.drill.about}")
    run = DrillRun(lab, asked, tell)
    try:
        run.run(ledger_file)
    except LabError as error:
        signals.raise_interruption(error)
        tell(f"  {error.found}")
        run.seen["doubts"] = [error.found]
        for line in node_logs.last_lines(lab, run.nodes):
            tell(f"  {line}")
        tell(f"  the nodes' logs: {', '.join(node_logs.keep(lab, run.nodes, asked.drill.name, ledger_file.parent))}")
    return Evidence(
        drill=asked.drill,
        at=clock.now(),
        wait_before=asked.wait_before,
        acted=run.acted,
        from_injection=True,
        **run.seen,
    )


@dataclass(frozen=True)
class Baseline:
    """The nodes' counters before the clients began, and how many characters the log of each container had."""

    counted: dict[str, int]
    logged: dict[str, int]
    forbidden: forbidden_logs.LogWatch


class DrillRun:
    """One running drill, which its topology can have; `acted` and `seen` collect the evidence while it runs."""

    def __init__(self, lab: Lab, asked: DrillRequest, tell: Tell):
        self.lab, self.asked, self.tell = lab, asked, tell
        self.what = what = asked.drill
        self.acted: list[FaultEvidence] = []
        self.seen: dict = {}
        self._began, self._whole_s = 0.0, dict[str, float]()
        self.nodes = replication.of(lab)
        self.ledger = Ledger(
            *(what.clients, what.hot_row, what.reads, what.think_ms, what.watchers, asked.transactions, asked.seed),
            back_off=bool(what.endpoint),
            rows=what.rows,
        )
        self._behind = Behind(lab, what) if what.endpoint else None
        self._writes = TakesWrites(lab) if what.endpoint or what.manager else None
        self._succession = ByLab(self.nodes, what, tell, self._time)

    def run(self, ledger_file: Path) -> None:
        baseline = self.prepare()
        with ExitStack() as stack:
            stack.enter_context(drill_settings.applied(self.nodes, self.what))
            schedules = [stack.enter_context(closing(self._schedule(step))) for step in self.what.steps]
            stays = bool(schedules) and self.what.steps[-1].stays
            if stays:
                stack.callback(schedules[-1].recover)
            self.under_load(schedules, ledger_file)
            if stays and "unrecovered" not in self.seen:
                self.collect_as_it_is(baseline)
        if not stays and "unrecovered" not in self.seen:
            self.collect(baseline)

    def prepare(self) -> Baseline:
        """Do T0: every node healthy, the ledger's tables on each, and the figures to compare afterwards."""
        forbidden = forbidden_logs.LogWatch(self.lab, self.what.tolerates)
        self._until_whole()
        if self.what.initial_primary:
            self.nodes.take_over(self.what.initial_primary)
        if self._writes and self.what.manager:
            self._succession = ByManager(self.lab, self.nodes, self.what, self.tell, self._time, self._writes)
        self.seen["before"] = self.nodes.looks()
        counted = self.nodes.counted()
        self.ledger.prepare(self.nodes.writer())
        self.seen["counted_tables"] = counted_tables = self.ledger.counted_tables(self.nodes.writer())
        self.seen["uncounted_tables"] = self.ledger.uncounted_tables(counted_tables)
        self.nodes.wait_until_caught_up()
        logged = {str(node.container.id): len(node.logs("all")) for node in map(self.lab.node, self.nodes.names)}
        return Baseline(counted, logged, forbidden)

    def under_load(self, schedules: list[FaultSchedule], ledger_file: Path) -> None:
        """Do T1 to T5 of each step, while clients write."""
        # A container for clients starts before anything observes the lab. Those behind an endpoint run in this process.
        clients, place = self._clients(), HERE if self._behind else self.lab.clients_place
        # Each line is in the operating system's cache when the call returns, so it survives a crash of this process. A
        # crash of the whole host would end the servers as well.
        with closing(LineByLine(ledger_file)) as file, observing(self.lab) as witnesses:
            with self.ledger.writing(clients, file.write, place) as self._began:
                used = host.own_cpu_seconds()
                with self._heard(witnesses), closing(NoiseMeter([self.lab], clients_here=place is HERE)) as self._noise:
                    probing = self.asked.probe.watching(self._began) if self.asked.probe else nullcontext()
                    with watching(self.nodes, self._began) as self.seen["looked"], probing as self.seen["application"]:
                        clock.pause(self.asked.wait_before)
                        self.seen["conditions"] = self.asked.conditions(self.nodes.names)
                        self._act_in_turn(schedules, ledger_file)
                    self._note_noise()
                    self.seen["load"] = (0.0, self._time())
                self.seen["harness"] = {
                    "memory_mib": round(host.own_memory_mib(), 1),
                    "cpu_share": round((host.own_cpu_seconds() - used) / max(self._time(), 1e-3), 3),
                }

    def _act_in_turn(self, schedules: list[FaultSchedule], ledger_file: Path) -> None:
        """Do T1 to T5 of each step, and prove the conditions once more; end at a step that does not recover.

        The clients of an endpoint may wait for an answer of a server that is no longer behind it.
        """
        for step, each in zip(self.what.steps, schedules, strict=True):
            self._act(step, each)
            if "unrecovered" in self.seen:
                return
            if not step.stays:
                wait_until_served(ledger_file, self.acted[-1].healed)
                clock.pause(self.what.after)
        # Of the nodes that were no target of a fault and have the same role as before.
        touched = {name for spec in self.what.fault_specs for name in spec.targets}
        if self.what.changes_roles:
            touched |= {self.lab.topology.source.name}
        untouched = [name for name in self.nodes.names if name not in touched]
        self.seen["conditions"] += self.asked.conditions(untouched)

    @contextmanager
    def _heard(self, witnesses: Witnesses) -> Iterator[None]:
        """Keep what the witnesses saw within the block, also if it fails."""
        try:
            with self._writes.watched(self._began) if self._writes else nullcontext():
                yield
        finally:
            self.seen["observations"] = witnesses.observations(self._began)
            if self._behind:
                self.seen["endpoint"] = self._behind.met(self._began)
            if self._writes:
                self.seen |= self._writes.seen()

    def _note_noise(self) -> None:
        """Record the noise since the last reading, and tell it if there was any."""
        parts = self.seen.setdefault("noise", [])
        found = NoiseWhile(parts[-1].end if parts else 0.0, self._time(), self._noise.read())
        if not found.noise.quiet:
            self.tell(f"  noisy: {found}")
        parts.append(found)
        self._noise.restart()

    def collect(self, baseline: Baseline) -> None:
        """Collect the final state: the nodes' views, the rows of every copy, and counters and logs since T0."""
        self._until_whole()
        self.seen["after"] = self.nodes.looks()
        self.seen["returns"] = self._returns(baseline.logged) if self.acted else {}
        self.seen["counted"] = self._counted(baseline.counted)
        self.nodes.wait_until_caught_up()
        self.nodes.refuse_separate_histories()
        self.seen["copies"] = [self._copy(name, source) for name, source in self.nodes.holders().items()]
        self.seen["compared"] = self.nodes.compared()
        self.seen["forbidden"] = baseline.forbidden.found()

    def collect_as_it_is(self, baseline: Baseline) -> None:
        """Collect what is there while a fault stays: the nodes' views, the rows where clients can write, and logs."""
        views = self.seen["after"] = self.nodes.looks()
        self.seen["copies"] = [self._copy(name, "") for name in self.nodes.takers(views)]
        self.seen["forbidden"] = baseline.forbidden.found()

    def _copy(self, name: str, source: str) -> Copy:
        server = self.lab.node(name).server()
        return self.ledger.copy(server, source, self.nodes.tables_of(server))

    # -- one step --------------------------------------------------------------------------------------------------

    def _schedule(self, step: Step) -> FaultSchedule:
        return FaultSchedule([(spec.at, faults.of(self.lab, spec)) for spec in step.fault_specs])

    def _clients(self) -> Callable[[str], ApplicationClient]:
        """Return what makes a client with an application's privileges, which a read-only server refuses."""
        if self._behind:
            return self._behind.client
        if not self.lab.clients_are_beside:
            return lambda node: ApplicationClient(lambda: self._server(node))
        what = self.what
        return ClientsOf({node: self._server(node) for node in {*what.clients, *what.watchers, *what.reads.values()}})

    def _server(self, node: str) -> Server:
        through = self.what.through if node in self.what.clients else ""
        found = self.lab.for_clients(node).as_application()
        return found.at(self.lab.link(through).address_for_clients) if through else found

    def _time(self) -> float:
        return round(clock.timer() - self._began, 3)

    def _act(self, step: Step, each: FaultSchedule) -> None:
        """Do T1 to T5 of one step."""
        self._note_noise()
        broke = self._time()
        try:
            each.inject()
            struck = self._time()
            proofs = each.verify()
            held = self._time()
            self.tell(f"  {held:5.1f} s: {step}: {_said(proofs)}")
            self._succession.wait(step, broke)
            proofs += [] if self._succession.has_undone else each.verify()
            views, positions = self.nodes.looks(), self.nodes.positions()
            change = self._succession.lead(step)
            self._note_noise()
        finally:
            healed = self._time()
            if not step.stays:
                if self.what.options:
                    # A machine that starts again has those of its file, and connects to no peer with others.
                    self.nodes.set_options({})
                each.recover()
        self.tell(f"  {healed:5.1f} s: {'it stays' if step.stays else 'undone'}")
        errant = dict[str, list[tuple[int, int]]]()
        try:
            if not step.stays:
                change = self._succession.settle(step, change)
                errant = errant_rows(self.nodes, self.ledger, change, WHOLE_SECONDS)
                for name in change.replaced:
                    self.nodes.take_back(name, discard_errant=True)
                change = self._succession.restore(change)
                self._until_back(healed)
                drill_settings.renew(self.nodes, self.what)
                self._succession.resume()
        except LabError as error:
            # What was seen until now stays true. What the copies hold cannot be compared any more.
            signals.raise_interruption(error)
            self.seen["unrecovered"] = error.found
        if change.promoted_s is not None:
            self.seen["promoted_s"] = change.promoted_s
        if change.done is not None:
            self.seen.setdefault("taken_over", []).append(change.done)
        whole = self._time()
        if "unrecovered" not in self.seen and not step.stays:
            proofs += each.verify_recovered()
        times = (broke, held, healed, whole, self._time())
        told = (change.refused, each.refusals, change.promoted, change.left, each.ended)
        self.acted.append(FaultEvidence(step, *times, proofs, views, struck, positions, errant, *told))
        now = "the fault is there" if step.stays else self.seen.get("unrecovered", f"every node {self.nodes.whole}")
        self.tell(f"  {self._time():5.1f} s: {_said(proofs)}; {now}")

    # -- what the nodes say ----------------------------------------------------------------------------------------

    def _until_whole(self) -> None:
        """Wait until all nodes are healthy; LabError if they do not become so."""
        clock.wait_until(
            lambda: all(map(self._stands, self.nodes.names)),
            f"{', '.join(self.nodes.names)} to be {self.nodes.whole}",
            WHOLE_SECONDS,
        )

    def _until_back(self, since: float) -> None:
        """Wait until every node is healthy, and record for each the seconds from `since` until it was."""

        def wait(name: str) -> float:
            clock.wait_until(
                lambda: self._has_returned(name), f"{name} to be {self.nodes.whole} again", WHOLE_SECONDS, every=0.1
            )
            return round(self._time() - since, 3)

        self._whole_s = self.nodes.of_each(wait)

    def _has_returned(self, name: str) -> bool:
        status, code = self.lab.node(name).state()
        if status == "exited":
            raise LabError(f"{name} exited with status {code} instead of restarting", "a running node")
        return self._stands(name)

    def _stands(self, name: str) -> bool:
        """Return whether a node is healthy; LabError if it has stopped replicating for good."""
        if self.nodes.stands(name):
            return True
        self.nodes.refuse_ended(name)
        return False

    def _returns(self, logged: dict[str, int]) -> dict[str, Return]:
        """Return how each node that had left the cluster came back, from its log since the drill began."""
        found = {}
        for name in self.nodes.names:
            node = self.lab.node(name)
            by = self.nodes.returned(node.logs("all")[logged.get(str(node.container.id), 0) :])
            if by:
                found[name] = Return(*by, self._whole_s[name])
        return found

    def _counted(self, before: dict[str, int]) -> dict[str, int]:
        """Return the growth of the nodes' counters since T0; empty if the counters of a node restarted at zero."""
        if self.what.ends_servers(faults.kinds()) or self.what.changes_roles:
            return {}
        return {name: many - before[name] for name, many in self.nodes.counted().items() if name in before}


def _said(proofs: Sequence[Proof]) -> str:
    wrong = [proof.doubt for proof in proofs if proof.doubt]
    return f"FAILED: {'; '.join(wrong)}" if wrong else "verified"
