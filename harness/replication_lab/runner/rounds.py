"""Runs an experiment: labs up, cases in shuffled rounds, everything recorded as it happens, until it is decided."""

import math
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from replication_lab import replication
from replication_lab.lab import managers, memory
from replication_lab.lab import up as labs
from replication_lab.model.core.event import KEPT, NOISY, End
from replication_lab.model.core.noise import STOP
from replication_lab.model.core.progress import Tell
from replication_lab.model.core.verdict import exit_code
from replication_lab.model.drill.evidence import Evidence, Looked
from replication_lab.model.experiment.case import LabSpec
from replication_lab.model.experiment.drilled import KnownInDrills
from replication_lab.model.experiment.experiment import Experiment, Preset, schedule
from replication_lab.model.experiment.measuring import Workload
from replication_lab.model.experiment.relations import Place
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.storage import Storage
from replication_lab.model.lab.toxic import Toxic
from replication_lab.model.question.server_options import ServerOptions
from replication_lab.model.record import record
from replication_lab.probes.cpu_speed import Speed, measured_speed
from replication_lab.probes.noise import NoiseMeter, wait_for_quiet
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.runner import asked_drills, described
from replication_lab.runner.session import EngineSession
from replication_lab.runner.watched import watching
from replication_lab.witnesses.witness import OBLIGATIONS, Witnesses, observing
from replication_lab.world import catalogue, clock, revisions, signals
from replication_lab.world.docker import beside_nodes, images, machine, option_check, project, servers
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker.lab import Lab
from replication_lab.world.journal import Journal
from replication_lab.world.packets import packet_ability

# How the rounds end: all claims are decided, or the undecided ones would need more rounds than planned.
DECIDED, GIVEN_UP = "decided", "given up"
# Seconds that a run waits for a quiet machine: in total, and before one measurement.
PATIENCE, PATIENCE_AT_ONCE = 600, 60


class World:
    """The part of the world that a run needs; the unit tests use tests.fakes.world in its place."""

    # What its witnesses prove of each measurement.
    obligations = OBLIGATIONS

    def __init__(self) -> None:
        self._left_up: set[str] = set()

    def environment(self) -> dict[str, Any]:
        return described.environment()

    def now(self) -> str:
        return clock.now()

    def make_ready(
        self,
        together: Sequence[Sequence[LabSpec]],
        tell: Tell,
        command: str,
        toxics: Iterable[tuple[str, Toxic]] = (),
        files: Iterable[tuple[LabSpec, ServerOptions]] = (),
    ) -> None:
        """Refuse impossible labs and toxics before anything starts; an error suggests `command` with another engine.

        Each of `toxics` comes with its link, or with a node for all of the node's links. `files` are the options that
        cases set on their labs; the servers' own programs check the my.cnf files among them.

        The labs of each part of `together` run at the same time.
        """
        wanted = [(catalogue.topology(spec.topology), spec) for part in together for spec in part]
        for topology, spec in wanted:
            replication.refuse_unfit_servers(topology, spec.engine, command)
        docker_engine.ensure()
        labs.tidy(tell)
        for topology, spec in wanted:
            servers.make_ready(topology, spec.engine)
        images.ensure(dict.fromkeys(name for _, spec in wanted for name in _images(spec)))
        packet_ability.refuse_unable(toxics, [topology for topology, _ in wanted])
        for spec, options in files:
            topology = catalogue.topology(spec.topology)
            nodes = [node.name for node in topology.nodes]
            option_check.check(topology, spec.engine, dict.fromkeys(nodes, spec.cnf) | dict(options.on(nodes).files))
        for part in together:
            memory.check([(catalogue.topology(spec.topology), spec.engine, _placed(spec)) for spec in part])

    @contextmanager
    def lab(self, spec: LabSpec) -> Iterator[Lab]:
        """Yield a dedicated lab for the run; remove it at the end in any case, unless `leave_up` was called for it."""
        found = catalogue.topology(spec.topology)
        name = f"run-{spec.topology.partition(revisions.SEPARATOR)[0]}-{secrets.token_hex(3)}"
        asked = LabRequest(found, spec.engine, name, storage=_placed(spec), load=True)
        launcher = labs.launcher_of(found)
        lab = project.start(replace(asked, launcher=launcher, endpoint=spec.endpoint, manager=spec.manager))
        try:
            managers.begin_quietly(lab)
            yield lab
        finally:
            if lab.name not in self._left_up:
                with signals.signals_held():
                    lab.down()

    def leave_up(self, lab: Lab, tell: Tell) -> str:
        """Let a lab stay up after its block; return the reason why the run ends."""
        self._left_up.add(lab.name)
        return labs.leave_up(lab, tell)

    def drill(self, run: "Run", engine: str, what: asked_drills.Planned) -> Evidence:
        """Run one drill of a question; return its evidence."""
        return asked_drills.done(run.experiment, engine, what, run.asked.seed, run.journal.folder, run.tell)

    def round_trip(self, lab: Lab, link: str) -> RoundTrip:
        return RoundTrip(lab.link(link))

    def watching(self, lab: Lab) -> AbstractContextManager[list[Looked]]:
        """Ask each node about once a second within the block; times are the clock's."""
        return watching(replication.of(lab), 0.0)

    def observing(self, lab: Lab, across: Collection[str]) -> AbstractContextManager[Witnesses]:
        """Observe the lab within the block with all witnesses; `across` names the links with a condition."""
        return observing(lab, across)

    def wait_for_quiet(self, own: Iterable[Lab], seconds: float, tell: Tell) -> bool:
        return wait_for_quiet(own, seconds, tell)

    def cpu_speed(self) -> AbstractContextManager[Speed]:
        """Measure the speed of the CPUs of the engine's machine within the block."""
        return measured_speed(beside_nodes.on_machine())

    def doubts(self, workload: Workload[Lab]) -> list[str]:
        """Return why what a load measures is not only the lab's: a load of the user's own runs in this process."""
        elsewhere = machine.facts().elsewhere
        if not elsewhere or type(workload).__module__.startswith("replication_lab."):
            return []
        return [f"{elsewhere}, and the load runs on this machine: the way there takes part of each commit's time"]

    def noise(self, own: Iterable[Lab]) -> NoiseMeter:
        """Return a noise meter to which all labs of the run are none of others: idle labs use some CPU as well."""
        return NoiseMeter(own)


def _time_left(seconds: float, plan: Preset) -> str:
    """Return how long the rounds after the first one take, if each takes as long."""
    fewest, most = ((rounds - 1) * seconds / 60 for rounds in (plan.min_rounds, plan.max_rounds))
    return f"  round 1 took {seconds:.0f} s; the others take {fewest:.1f} to {most:.1f} minutes"


def _storage(spec: LabSpec) -> dict[str, Storage]:
    return catalogue.topology(spec.topology).storage if spec.storage is None else dict(spec.storage)


def _placed(spec: LabSpec) -> dict[str, Storage]:
    return labs.placed_on(_storage(spec), spec.engine)


def _images(spec: LabSpec) -> list[str]:
    topology = catalogue.topology(spec.topology)
    return labs.image_names(spec.engine, True, topology, _storage(spec), spec.endpoint, spec.manager)


@dataclass
class Run:
    """One run of an experiment on one or more engines, one after another."""

    asked: RunRequest
    journal: Journal
    world: World = field(default_factory=World)
    tell: Tell = print
    # The drills of a question, by engine.
    drills: Mapping[str, Sequence[asked_drills.Planned]] = field(default_factory=dict)
    left_up: str = ""
    # Seconds that the run may still wait for a quiet machine.
    patience: float = PATIENCE
    # The labs of the engines that are being measured: idle ones use some CPU as well, which is not noise.
    up: list[Lab] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.experiment: Experiment[Lab] = self.asked.experiment
        self.preset, self.engines = self.asked.extent, self.asked.servers

    def run(self) -> Path:
        """Run and return the run's folder. End the record in any case; raise errors again, except interruptions."""
        with self.journal.recording(self.opening()):
            whys: list[str] = []
            for part in self.asked.parts:
                if not self.left_up and NOISY not in whys:
                    whys.append(self._on_engines(part))
            if not self.left_up and NOISY not in whys:
                for engine in self.engines:
                    # Run the drills of a question after its loads, each on a dedicated lab.
                    up = self.journal.record.lab(engine)
                    for each in self.drills.get(engine, ()):
                        if up and each.case.name in up.not_applicable:
                            continue
                        self.tell(f"{engine}, drill {each.run} of {each.runs}: {each.case.about}")
                        self.journal.write(self.world.drill(self, engine, each))
            why = NOISY if NOISY in whys else next((why for why in whys if why != DECIDED), DECIDED)
            self.journal.write(End(why=KEPT if self.left_up else why, reason=self.left_up))
        return self.journal.folder

    def wait_for_quiet(self) -> bool:
        """Wait until the machine is quiet, or for as long as is left; False if the time for waiting is used up."""
        if self.patience <= 0:
            return False
        began = clock.timer()
        self.world.wait_for_quiet(self.up, min(self.patience, PATIENCE_AT_ONCE), self.tell)
        self.patience -= clock.timer() - began
        return True

    def next_seed(self) -> int:
        """Return a new seed for each load: an update that repeats another changes nothing and is not logged."""
        return self.asked.seed * 1000 + len(self.journal.record.measurements) + 1

    def opening(self) -> record.RunOpening:
        """Return the first event of the record: what is run, with which settings, and where."""
        plan = {"min_rounds": self.preset.min_rounds, "max_rounds": self.preset.max_rounds, "alpha": self.preset.alpha}
        return record.RunOpening(
            experiment=self.experiment.name,
            preset=self.preset.name,
            seed=self.asked.seed,
            engines=self.engines,
            settings={**plan, **self.preset.sizes, **self._own_sizes()},
            undecidable=self.preset.undecidable,
            question=self.experiment.asked,
            conditions=self.experiment.conditions,
            cnf=list(self.experiment.cnf),
            only=self.experiment.only,
            against=self.experiment.against,
            environment=self.world.environment(),
            obligations=self.world.obligations,
            started=self.world.now(),
        )

    def _own_sizes(self) -> dict[str, object]:
        """Return the sizes that differ on a family of servers, such as `window on mysql`."""
        own = self.preset.own_sizes
        return {f"{name} on {family}": size for family, sizes in own.items() for name, size in sizes.items()}

    def _on_engines(self, labs: Mapping[str, Sequence[LabSpec]]) -> str:
        with ExitStack() as stack:
            stack.callback(self.up.clear)
            sessions = [EngineSession(self, self._started(engine, labs[engine], stack), engine) for engine in labs]
            with self._left_up_if_failed(sessions):
                for session in sessions:
                    session.open()
                why = self.rounds(sessions)
                for session in sessions:
                    session.compare_copies()
            return why

    @contextmanager
    def _left_up_if_failed(self, sessions: list[EngineSession]) -> Iterator[None]:
        """Leave the labs up after the block if it failed, or if a verdict for these engines is not the expected one."""
        failed = self.asked.keep
        try:
            yield
            failed = failed and any(self._failed(session.engine) for session in sessions)
        except KeyboardInterrupt:
            failed = False
            raise
        finally:
            if failed:
                labs_up = [lab for session in sessions for lab in session.labs.values()]
                self.left_up = "; ".join([self.world.leave_up(lab, self.tell) for lab in labs_up])

    def _failed(self, engine: str) -> bool:
        # The claims about drills are decided later, on other labs.
        later = {claim.id for claim in self.experiment.claims if isinstance(claim.relation, KnownInDrills)}
        judged = [one for one in self.experiment.judge(self.journal.record, engine) if one.id not in later]
        return bool(exit_code(judged)) and bool(judged or not later)

    def _started(self, engine: str, specs: Sequence[LabSpec], stack: ExitStack) -> dict[LabSpec, Lab]:
        """Start labs one after another: Compose takes a lab's settings from this process's environment."""
        labs_up = {}
        for spec in specs:
            self.tell(f"{engine}: {spec.about} starts")
            labs_up[spec] = stack.enter_context(self.world.lab(spec))
        return labs_up

    def rounds(self, sessions: list[EngineSession]) -> str:
        """Measure rounds until all claims are decided or a limit is reached; return DECIDED, GIVEN_UP or the limit.

        After the plan's first rounds only the cases of claims that are still open are measured.
        """
        plan, ends = self.preset, clock.timer() + 60 * (self.preset.max_minutes or math.inf)
        everything = {(session.engine, case.name): (session, case) for session in sessions for case in session.cases}
        for number, order in schedule(list(everything), plan.max_rounds, self.asked.seed, self._compared(sessions)):
            still_open = self._open(sessions) if number > plan.min_rounds else None
            chosen = [place for place in order if still_open is None or place in still_open]
            if not chosen:
                return self._without_open_claims(sessions)
            if clock.timer() > ends:
                return "time limit"
            began = clock.timer()
            for position, (session, case) in enumerate(map(everything.__getitem__, chosen), 1):
                rounds = f"round {number} of {plan.min_rounds}-{plan.max_rounds}"
                self.tell(f"{session.engine}, {rounds}, {position}/{len(chosen)}: {case.about}")
                if not session.measure_quietly(case, number) and self.asked.noise == STOP:
                    return NOISY
            if number == 1 < plan.max_rounds:
                self._tell_noise()
                self.tell(_time_left(clock.timer() - began, plan))
        return "round limit" if self._open(sessions) else self._without_open_claims(sessions)

    def _tell_noise(self) -> None:
        """Tell how noisy the measurements were so far, and what the last noisy one was disturbed by."""
        found = self.journal.record.measurements
        if noisy := [each.noise for each in found if not each.noise.quiet]:
            self.tell(f"noise: {len(noisy)} of {len(found)} measurements so far; the last one: {noisy[-1].why}")

    def _without_open_claims(self, sessions: list[EngineSession]) -> str:
        judged = [one for session in sessions for one in self.experiment.judge(self.journal.record, session.engine)]
        return GIVEN_UP if any(one.given_up for one in judged) else DECIDED

    def _compared(self, sessions: list[EngineSession]) -> list[tuple[Place, ...]]:
        relations = [claim.relation for claim in self.experiment.claims]
        return [relation.measured_on(session.engine) for session in sessions for relation in relations]

    def _open(self, sessions: list[EngineSession]) -> set[Place]:
        """Return the (engine, case) that another round must measure: those of undecided claims that it may decide."""
        claims = {claim.id: claim.relation for claim in self.experiment.claims}
        return {
            place
            for session in sessions
            for judgement in self.experiment.judge(self.journal.record, session.engine)
            if not judgement.settled
            for place in claims[judgement.id].measured_on(session.engine)
        }
