"""Runs an experiment: labs up, cases in shuffled rounds, everything recorded as it happens, until it is decided."""

import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from replication_lab import replication
from replication_lab.faults.toxic_calibration import calibrated, clear, corrected_by, undisturbed
from replication_lab.faults.toxic_watch import ToxicOnLink, toxic_on
from replication_lab.lab import disks
from replication_lab.lab import up as labs
from replication_lab.model import record
from replication_lab.model.errors import LabError
from replication_lab.model.experiment import Case, Experiment, Preset, schedule
from replication_lab.model.relations import Place
from replication_lab.model.storage import Storage
from replication_lab.model.toxic import Toxic
from replication_lab.probes.noise import NoiseMeter
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.world import catalogue, clock, drbd, host
from replication_lab.world.disks import array
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import images, project, signals
from replication_lab.world.docker.lab import Lab
from replication_lab.world.journal import Journal

Tell = Callable[[str], None]
NOISY_REPEATS = 2
# What the servers are read back for; those that an engine does not know are left out.
SETTINGS = (
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "binlog_format",
    "innodb_buffer_pool_size",
    "innodb_autoinc_lock_mode",
    "wsrep_slave_threads",
)


class World:
    """What a run needs of the world; tests.fakes.world has another one for the unit tests."""

    def environment(self) -> dict[str, Any]:
        versions = {"docker": docker_engine.client().version()["Version"], "compose": docker_engine.compose_version()}
        return {
            **host.describe(),
            **versions,
            "images": images.source(),
            "load1": host.load1(),
            "cpu_pressure": host.cpu_pressure(),
        }

    def now(self) -> str:
        return clock.now()

    def make_ready(self, engines: list[str], topologies: Iterable[str], tell: Tell) -> None:
        """Everything that can be refused is refused here, before anything starts."""
        wanted = [(engine, catalogue.topology(name)) for engine in engines for name in topologies]
        for engine, topology in wanted:
            catalogue.engine_for(topology, engine, images.source())
        docker_engine.ensure()
        labs.tidy(tell)
        images.ensure(
            dict.fromkeys(
                name
                for engine, topology in wanted
                for name in labs.image_names(engine, load=True, topology=topology, storage=topology.storage)
            )
        )

    @contextmanager
    def lab(self, topology: str, engine: str) -> Iterator[Lab]:
        """A lab of the run's own, gone at the end whatever happens."""
        found = catalogue.topology(topology)
        storage = labs.placed_on(found.storage, engine)
        name, launcher = f"run-{topology}-{secrets.token_hex(3)}", labs.launcher_of(found)
        lab = project.start(found, engine, name, load=True, storage=storage, launcher=launcher)
        try:
            yield lab
        finally:
            with signals.signals_held():
                lab.down()

    def round_trip(self, lab: Lab, link: str) -> RoundTrip:
        return RoundTrip(lab.wire(link), lab.far_end(link))

    def noise(self, own: Iterable[Lab]) -> NoiseMeter:
        """Started for the labs whose work is not noise: all that are up, for the idle ones work a little as well."""
        return NoiseMeter.start(own)


@dataclass
class Run:
    """One run of an experiment on one or more engines, one after another."""

    experiment: Experiment
    preset: Preset
    engines: list[str]
    seed: int
    journal: Journal
    world: World = field(default_factory=World)
    tell: Tell = print
    # Of the engines that are measured now: the idle ones among their labs work a little too, and are not noise.
    up: list[Lab] = field(default_factory=list)

    def run(self) -> Path:
        """The run's folder, its record ended in any case; what went wrong besides an interruption is raised again."""
        self.journal.write(self._opening())
        try:
            together = [self.engines] if self.experiment.side_by_side else [[engine] for engine in self.engines]
            whys = [self._on_engines(engines) for engines in together]
            self.journal.write(record.End(why="decided" if set(whys) == {"decided"} else "round limit"))
        except KeyboardInterrupt as stop:
            self.journal.write(record.Interrupted(reason=str(stop) or "SIGINT"))
            self.journal.write(record.End(why="interrupted"))
        except BaseException as error:
            self.journal.write(record.Crashed(error=f"{type(error).__name__}: {error}"))
            self.journal.write(record.End(why="crashed"))
            raise
        finally:
            self.journal.close()
        return self.journal.folder

    def next_seed(self) -> int:
        """Another one for each load: who repeats an update changes nothing, and a source logs nothing of it."""
        return self.seed * 1000 + len(self.journal.record.measurements) + 1

    def _opening(self) -> record.Run:
        plan = {"min_rounds": self.preset.min_rounds, "max_rounds": self.preset.max_rounds, "alpha": self.preset.alpha}
        return record.Run(
            experiment=self.experiment.name,
            preset=self.preset.name,
            seed=self.seed,
            engines=self.engines,
            settings={**plan, **self.preset.sizes},
            undecidable=self.preset.undecidable,
            environment=self.world.environment(),
            started=self.world.now(),
        )

    def _on_engines(self, engines: list[str]) -> str:
        with ExitStack() as stack:
            stack.callback(self.up.clear)
            sessions = [Session(self, self._labs(engine, stack), engine) for engine in engines]
            for session in sessions:
                session.open()
            why = self.rounds(sessions)
            for session in sessions:
                session.compare_copies()
            return why

    def _labs(self, engine: str, stack: ExitStack) -> dict[str, Lab]:
        """One after another: Compose takes a lab's settings from this process's environment."""
        labs_up = {}
        for topology in self.experiment.topologies(self.preset):
            self.tell(f"{engine}: {topology} starts")
            labs_up[topology] = stack.enter_context(self.world.lab(topology, engine))
        return labs_up

    def rounds(self, sessions: list["Session"]) -> str:
        """Round after round until every claim is decided or the plan's limit is reached: "decided" or "round limit".

        After the plan's first rounds only the cases of claims that are still open are measured.
        """
        plan = self.preset
        everything = [(session, case) for session in sessions for case in session.cases]
        for number, order in schedule(everything, plan.max_rounds, self.seed):
            still_open = self._open(sessions) if number > plan.min_rounds else None
            chosen = [each for each in order if still_open is None or (each[0].engine, each[1].name) in still_open]
            if not chosen:
                return "decided"
            for position, (session, case) in enumerate(chosen, 1):
                rounds = f"round {number} of {plan.min_rounds}-{plan.max_rounds}"
                self.tell(f"{session.engine}, {rounds}, {position}/{len(chosen)}: {case.about}")
                session.measure_quietly(case, number)
        return "round limit" if self._open(sessions) else "decided"

    def _open(self, sessions: list["Session"]) -> set[Place]:
        """What another round must measure, since a claim that it may decide is still open."""
        claims = {claim.id: claim.relation for claim in self.experiment.claims}
        return {
            place
            for session in sessions
            for judgement in self.experiment.judge(self.journal.record, session.engine)
            if not judgement.settled
            for place in claims[judgement.claim].measured_on(session.engine)
        }


@dataclass
class Session:
    """The rounds of a run on one engine's labs, one lab for each topology of the experiment, all up at once."""

    run: Run
    labs: dict[str, Lab]
    engine: str
    _calibrated: dict[tuple[str, str, str], Toxic] = field(default_factory=dict)

    @property
    def experiment(self) -> Experiment:
        return self.run.experiment

    @property
    def cases(self) -> list[Case]:
        features = catalogue.engines()[self.engine].features
        return [case for case in self.experiment.chosen(self.run.preset) if case.needs <= features]

    def lab_of(self, case: Case) -> Lab:
        return self.labs[self.experiment.topology_of(case)]

    def open(self) -> None:
        """Record what came up, bring the workload in, and calibrate the toxics that the cases ask for."""
        self.run.up.extend(self.labs.values())
        not_applicable = self._not_applicable()
        for lab in self.labs.values():
            if self.experiment.prepare:
                self.experiment.prepare(lab)
            if self.experiment.fill:
                self.run.tell(f"{self.engine}: {lab.topology.name} is filled with rows")
                self.experiment.fill(lab, self.run.preset)
            self.run.journal.write(_described(lab, self.engine, not_applicable, self.experiment))
        wanted = {
            (lab.topology.name, link, toxic): lab
            for case in self.cases
            for lab in [self.lab_of(case)]
            for link, toxic in case.settings.get("toxics", {}).items()
        }
        # Links do not touch each other, but one link carries one toxic at a time.
        for toxic in dict.fromkeys(toxic for _, _, toxic in wanted):
            mine = {key: lab for key, lab in wanted.items() if key[2] == toxic}
            with ThreadPoolExecutor(len(mine)) as pool:
                found = pool.map(lambda key, lab: self._calibrate(lab, *key[1:]), mine.keys(), mine.values())
                self._calibrated |= zip(mine, found, strict=True)

    def _not_applicable(self) -> dict[str, str]:
        features, preset = catalogue.engines()[self.engine].features, self.run.preset
        chosen = self.experiment.chosen(preset)
        missing = {
            case.name: f"{self.engine} has no {' and no '.join(sorted(case.needs - features))}"
            for case in self.experiment.cases
            if not case.needs <= features
        }
        return missing | {
            case.name: f"the preset {preset.name} leaves it out" for case in self.experiment.cases if case not in chosen
        }

    def _calibrate(self, lab: Lab, link: str, toxic: str) -> Toxic:
        wire = lab.wire(link)
        with closing(self.run.world.round_trip(lab, link)) as probe:
            found = calibrated(wire, catalogue.toxic(toxic), probe)
            clear(wire)
        return found

    def _follow(self, topology: str, faults: list[record.Fault]) -> None:
        """Correct the next use of a toxic by its realised round trip: a busy proxy's timers are not an idle one's."""
        for fault in faults:
            asked = catalogue.toxic(fault.toxic)
            if fault.seen and fault.during:
                key = (topology, fault.link, fault.toxic)
                typical = undisturbed(fault.during.min, fault.during.p50)
                self._calibrated[key] = corrected_by(self._calibrated[key], asked, typical)

    def measure_quietly(self, case: Case, number: int) -> None:
        """Measure a case; again when somebody else was busy on the machine, but not for ever."""
        for _ in range(1 + NOISY_REPEATS):
            found = self._measure(case, number)
            self.run.journal.write(found)
            if found.noise.quiet:
                return
            self.run.tell(f"  noisy: {found.noise.why}; measured again")

    def _measure(self, case: Case, number: int) -> record.Measurement:
        began, at = clock.timer(), self.run.world.now()
        meter = self.run.world.noise(self.run.up)
        try:
            parts = self._measured(case, number, meter)
        except LabError as error:
            _raise_interruption(error)
            if why := next(filter(None, (lab.why_ended() for lab in self.run.up)), ""):
                raise LabError(f"during {case.name}: {why}", "every node running", "./lab report latest") from error
            full = filter(None, map(disks.full, array.arrays(self.lab_of(case)).values()))
            parts = {"doubts": [error.found, *full], "noise": meter.read()}
        return record.Measurement(
            engine=self.engine, round=number, case=case.name, at=at, seconds=round(clock.timer() - began, 3), **parts
        )

    def _measured(self, case: Case, number: int, meter: NoiseMeter) -> dict[str, Any]:
        lab = self.lab_of(case)
        workload = self.experiment.workload(case, self.run.preset)
        asked = case.settings.get("toxics", {})
        with self.experiment.arrange(lab, case) as watch:
            with all_at_once([self._toxic(lab, link, name) for link, name in asked.items()]) as toxics:
                meter = meter.anew()
                outcome = workload.run(lab, seed=self.run.next_seed())
                noise = meter.read()
            counted = watch.figures()
            proofs = watch.proofs(outcome.commits, outcome.figures.get("latency_min_ms"))
            # A load of several phases knows best what each of them needs.
            proofs = [*proofs, *getattr(outcome, "proofs", [])]
        faults = [toxic.fault() for toxic in toxics]
        if noise.quiet:
            self._follow(lab.topology.name, faults)
        return {
            "figures": {**outcome.figures, **counted, **trips(faults)},
            "samples": outcome.samples,
            "faults": faults,
            "proofs": proofs,
            "noise": noise,
        }

    @contextmanager
    def _toxic(self, lab: Lab, link: str, name: str) -> Iterator[ToxicOnLink]:
        toxic = self._calibrated[lab.topology.name, link, name]
        with closing(self.run.world.round_trip(lab, link)) as probe:
            with toxic_on(lab.wire(link), toxic, catalogue.toxic(name), probe) as acting:
                yield acting

    def compare_copies(self) -> None:
        """Doubt the run when a copy does not hold what its source, or its cluster's first node, holds."""
        for lab in self.labs.values():
            self.run.tell(f"{self.engine}: the copies of {lab.topology.name} are compared")
            try:
                reasons = replication.of(lab).differences()
            except LabError as error:
                reasons = [f"copies could not be compared: {error.found}"]
            for reason in reasons:
                self.run.journal.write(record.Doubt(engine=self.engine, reason=reason))


def _described(lab: Lab, engine: str, not_applicable: dict[str, str], experiment: Experiment) -> record.Lab:
    source = lab.server(lab.topology.source.name)
    return record.Lab(
        engine=engine,
        version=source.version(),
        topology=lab.topology.name,
        images=lab.image_digests(),
        settings=source.settings(*SETTINGS, *experiment.settings) | _storage(lab) | _machines(lab, experiment),
        not_applicable=not_applicable,
    )


def _storage(lab: Lab) -> dict[str, str]:
    """What each node with disks of its own is on, and by what: "raid0 of 2 disks by btrfs on loop devices, not md"."""
    return {f"storage {node}": _said(each.storage) for node, each in array.arrays(lab).items()}


def _machines(lab: Lab, experiment: Experiment) -> dict[str, str]:
    """What starts the virtual machines, and what their disks cost: absolute figures belong to both."""
    machines = {f"machine {node}": drbd.Peer(lab, node).launcher() for node in drbd.machines(lab)}
    return machines | ({"disks of machines": experiment.disks} if machines else {})


def _said(storage: Storage) -> str:
    about = catalogue.backend(storage.backend).about
    return f"{storage.level} of {storage.members} {storage.disk} by {about}{'' if 'md' in about else ', not md'}"


@contextmanager
def all_at_once(parts: list[AbstractContextManager]) -> Iterator[list[Any]]:
    """Enter all parts at the same time, each in a thread of its own, and leave them likewise.

    Half a dozen links, each with a WAN's round trips to wait for, take as long as one. Whatever goes wrong in a part,
    the others are left, and the first error is raised.
    """
    with ThreadPoolExecutor(max(len(parts), 1)) as pool:
        entering = [pool.submit(part.__enter__) for part in parts]
        try:
            yield [attempt.result() for attempt in entering]
        finally:
            entered = [part for part, attempt in zip(parts, entering, strict=True) if attempt.exception() is None]
            leaving = [pool.submit(part.__exit__, None, None, None) for part in entered]
            for attempt in leaving:
                attempt.result()


def _raise_interruption(error: BaseException) -> None:
    """Raise the Ctrl-C that `error`, a failure while cleaning up after it, has covered."""
    while error.__context__ is not None:
        error = error.__context__
        if isinstance(error, KeyboardInterrupt):
            raise error


def trips(faults: list[record.Fault]) -> dict[str, float]:
    """The round trip during the load as a figure, where all links with a toxic were asked for the same.

    The median is that of the typical link (the median of their medians); the shortest is that of any link, which no
    commit that waits for one of them can beat. Links of different lengths have no round trip in common, so no figure.
    """
    timed = [fault.during for fault in faults if fault.unit == "ms" and fault.during]
    if not timed or len(timed) < len(faults) or len({fault.asked for fault in faults}) > 1:
        return {}
    return {"rtt_min_ms": min(trip.min for trip in timed), "rtt_p50_ms": round(median(t.p50 for t in timed), 3)}
