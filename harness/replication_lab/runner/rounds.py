"""Runs an experiment: labs up, cases in shuffled rounds, everything recorded as it happens, until it is decided."""

import math
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

from replication_lab.model.core.event import KEPT, NOISY, End
from replication_lab.model.core.noise import STOP
from replication_lab.model.core.progress import Tell
from replication_lab.model.core.verdict import exit_code
from replication_lab.model.experiment.case import Case, LabSpec
from replication_lab.model.experiment.drilled import KnownInDrills
from replication_lab.model.experiment.experiment import Experiment, Preset, schedule
from replication_lab.model.experiment.relations import Place
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.lab.site import Site
from replication_lab.model.record import record
from replication_lab.runner import asked_drills
from replication_lab.runner.session import EngineSession
from replication_lab.runner.world import World
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.journal import Journal

# The cases that a site measures, by engine and case; and rounds of one machine, by their numbers.
Sessions = dict[Place, tuple[EngineSession, Case]]
Turns = list[tuple[int, list[tuple[EngineSession, Case]]]]
# How the rounds end: all claims are decided, or the undecided ones would need more rounds than planned.
DECIDED, GIVEN_UP = "decided", "given up"
# Seconds that a run waits for a quiet machine: in total, and before one measurement.
PATIENCE, PATIENCE_AT_ONCE = 600, 60


def _time_left(seconds: float, plan: Preset, sites: int) -> str:
    """Return how long the rounds after the first ones, one at each site, take if each takes as long."""
    fewest, most = (max(rounds - sites, 0) / sites * seconds / 60 for rounds in (plan.min_rounds, plan.max_rounds))
    first = f"rounds 1 to {sites}" if sites > 1 else "round 1"
    return f"  {first} took {seconds:.0f} s; the others take {fewest:.1f} to {most:.1f} minutes"


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
    # The labs of the engines that are being measured, by machine: idle ones use some CPU as well, which is not noise.
    up: dict[str, list[Lab]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.experiment: Experiment[Lab] = self.asked.experiment
        self.preset, self.engines = self.asked.extent, self.asked.servers
        self._stopping = threading.Event()

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

    @cached_property
    def machines(self) -> dict[str, str]:
        """The first site on the machine of each: only sites on different machines are measured at the same time."""
        return self.world.machines(self.asked.sites)

    def wait_for_quiet(self, machine_: str = "") -> bool:
        """Wait until a machine is quiet, or for as long as is left; False if the time for waiting is used up."""
        if self.patience <= 0:
            return False
        began = clock.timer()
        self.world.wait_for_quiet(self.up[machine_], min(self.patience, PATIENCE_AT_ONCE), self.tell, machine_)
        self.patience -= clock.timer() - began
        return True

    def next_seed(self) -> int:
        """Return a new seed for each load: an update that repeats another changes nothing and is not logged."""
        return self.asked.seed * 1000 + len(self.journal.record.measurements) + 1

    def opening(self) -> record.RunOpening:
        """Return the first event of the record: what is run, with which settings, and where."""
        plan = {"min_rounds": self.preset.min_rounds, "max_rounds": self.preset.max_rounds, "alpha": self.preset.alpha}
        # The sizes that differ on a family of servers, such as `window on mysql`.
        own = self.preset.own_sizes.items()
        own_sizes = {f"{name} on {family}": size for family, sizes in own for name, size in sizes.items()}
        return record.RunOpening(
            experiment=self.experiment.name,
            preset=self.preset.name,
            seed=self.asked.seed,
            engines=self.engines,
            settings={**plan, **self.preset.sizes, **own_sizes},
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

    def _on_engines(self, labs: Mapping[str, Sequence[LabSpec]]) -> str:
        with ExitStack() as stack:
            stack.callback(self.up.clear)
            started = {engine: self._started(engine, labs[engine], stack) for engine in labs}
            sessions = [
                EngineSession(self, {spec: lab for spec, lab in up.items() if spec.site == site}, engine, site)
                for engine, up in started.items()
                for site in self.asked.sites
            ]
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

        After the plan's first rounds only the cases of claims that are still open are measured. Sites take turns, a
        whole round each: so what a round compares was measured at one site.
        """
        plan, ends = self.preset, clock.timer() + 60 * (self.preset.max_minutes or math.inf)
        at: dict[str, Sessions] = {site: {} for site in self.asked.sites}
        for session in sessions:
            at[session.site] |= {(session.engine, case.name): (session, case) for case in session.cases}
        places = list(dict.fromkeys(place for each in at.values() for place in each))
        relations = [claim.relation for claim in self.experiment.claims]
        compared = [relation.measured_on(session.engine) for session in sessions for relation in relations]
        order = schedule(places, plan.max_rounds, self.asked.seed, compared)
        while batch := list(islice(order, len(at))):
            number, began = batch[0][0], clock.timer()
            still_open = self._open(sessions) if number > plan.min_rounds else set(places)
            if not still_open.intersection(places):
                return self._without_open_claims(sessions)
            if began > ends:
                return "time limit"
            turns: dict[str, Turns] = defaultdict(list)
            for (each, shuffled), (site, there) in zip(batch, at.items(), strict=False):
                chosen = [there[place] for place in shuffled if place in still_open]
                turns[self.machines[site]].append((each, chosen))
            if not self._at_once(list(turns.values())):
                return NOISY
            if number == 1 and plan.max_rounds > len(at):
                found = self.journal.record.measurements
                if noisy := [each.noise for each in found if not each.noise.quiet]:
                    self.tell(f"noise: {len(noisy)} of {len(found)} measurements so far; the last one: {noisy[-1].why}")
                self.tell(_time_left(clock.timer() - began, plan, len(at)))
        return "round limit" if self._open(sessions) else self._without_open_claims(sessions)

    def _at_once(self, parts: list[Turns]) -> bool:
        """Measure on all machines at once; return whether the run may go on.

        If a part fails, the others end after the load that runs.
        """

        def measured(part: Turns) -> bool:
            return all(self._round(*turn) for turn in part)

        if len(parts) == 1:
            return measured(parts[0])
        with ThreadPoolExecutor(len(parts)) as pool:
            try:
                return all(list(pool.map(measured, parts)))
            except BaseException:
                self._stopping.set()
                raise

    def _round(self, number: int, chosen: Sequence[tuple[EngineSession, Case]]) -> bool:
        """Measure the cases of a round at its site; return whether the run may go on."""
        rounds = f"round {number} of {self.preset.min_rounds}-{self.preset.max_rounds}"
        for position, (session, case) in enumerate(chosen, 1):
            if self._stopping.is_set():
                return False
            where = f" at {Site(session.site)}" if len(self.asked.sites) > 1 else ""
            self.tell(f"{session.engine}, {rounds}{where}, {position}/{len(chosen)}: {case.about}")
            if not session.measure_quietly(case, number) and self.asked.noise == STOP:
                self._stopping.set()
                return False
        return True

    def _without_open_claims(self, sessions: list[EngineSession]) -> str:
        engines = dict.fromkeys(session.engine for session in sessions)
        judged = [one for engine in engines for one in self.experiment.judge(self.journal.record, engine)]
        return GIVEN_UP if any(one.given_up for one in judged) else DECIDED

    def _open(self, sessions: list[EngineSession]) -> set[Place]:
        """Return the (engine, case) that another round must measure: those of undecided claims that it may decide."""
        claims = {claim.id: claim.relation for claim in self.experiment.claims}
        return {
            place
            for engine in dict.fromkeys(session.engine for session in sessions)
            for judgement in self.experiment.judge(self.journal.record, engine)
            if not judgement.settled
            for place in claims[judgement.id].measured_on(engine)
        }
