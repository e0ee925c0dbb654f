"""Runs an experiment: labs up, cases in shuffled rounds, everything recorded as it happens, until it is decided."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import labs, record
from harness.errors import LabError
from harness.experiment import Case, Experiment, Preset, schedule
from harness.faults.toxic import ToxicOnLink, calibrated, clear, corrected_by, toxic_on
from harness.probes.noise import NoiseMeter
from harness.probes.round_trip import RoundTrip
from harness.toxic import Toxic
from harness.world import catalogue, clock, compose, docker_engine, host, images
from harness.world.compose import Lab
from harness.world.journal import Journal

Tell = Callable[[str], None]
NOISY_REPEATS = 2


class World:
    """What a run needs of the world; harness.world.fake has another one for the unit tests."""

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

    def make_ready(self, engines: list[str], tell: Tell) -> None:
        """Everything that can be refused is refused here, before anything starts."""
        for engine in engines:
            catalogue.engine(engine, images.source())
        docker_engine.ensure()
        labs.tidy(tell)
        images.ensure(dict.fromkeys(name for engine in engines for name in labs.image_names(engine, load=True)))

    @contextmanager
    def lab(self, topology: str, engine: str) -> Iterator[Lab]:
        """A lab of the run's own, gone at the end whatever happens."""
        lab = compose.start(catalogue.topology(topology), engine, f"run-{topology}-{secrets.token_hex(3)}", load=True)
        try:
            yield lab
        finally:
            with compose.signals_held():
                lab.down()

    def round_trip(self, lab: Lab, link: str) -> RoundTrip:
        return RoundTrip(lab.wire(link), lab.server(lab.topology.link(link).source))

    def noise(self, lab: Lab) -> NoiseMeter:
        return NoiseMeter.start(lab)


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

    def run(self) -> Path:
        """The run's folder, its record ended in any case; what went wrong besides an interruption is raised again."""
        self.journal.write(self._opening())
        try:
            whys = [self._on_engine(engine) for engine in self.engines]
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

    def _opening(self) -> record.Run:
        plan = {"min_rounds": self.preset.min_rounds, "max_rounds": self.preset.max_rounds, "alpha": self.preset.alpha}
        return record.Run(
            experiment=self.experiment.name,
            preset=self.preset.name,
            seed=self.seed,
            engines=self.engines,
            settings={**plan, **self.preset.sizes},
            environment=self.world.environment(),
            started=self.world.now(),
        )

    def _on_engine(self, engine: str) -> str:
        with self.world.lab(self.experiment.topology, engine) as lab:
            session = Session(self, lab, engine)
            session.open()
            why = session.rounds()
            session.compare_copies()
            return why


@dataclass
class Session:
    """The rounds of a run on one engine's lab."""

    run: Run
    lab: Lab
    engine: str
    _calibrated: dict[tuple[str, str], Toxic] = field(default_factory=dict)

    @property
    def experiment(self) -> Experiment:
        return self.run.experiment

    @property
    def cases(self) -> list[Case]:
        features = catalogue.engines()[self.engine].features
        return [case for case in self.experiment.cases if case.needs <= features]

    def open(self) -> None:
        """Record what came up, bring the workload in, and calibrate the toxics that the cases ask for."""
        source = self.lab.server(self.lab.topology.source.name)
        self.experiment.prepare(self.lab)
        self.run.journal.write(
            record.Lab(
                engine=self.engine,
                version=source.version(),
                topology=self.lab.topology.name,
                images=self.lab.image_digests(),
                settings=source.settings(
                    "innodb_flush_log_at_trx_commit", "sync_binlog", "binlog_format", "innodb_buffer_pool_size"
                ),
                not_applicable=self._not_applicable(),
            )
        )
        for case in self.cases:
            for link, toxic in case.settings.get("toxics", {}).items():
                self._calibrate(link, toxic)

    def _not_applicable(self) -> dict[str, str]:
        features = catalogue.engines()[self.engine].features
        return {
            case.name: f"{self.engine} has no {' and no '.join(sorted(case.needs - features))}"
            for case in self.experiment.cases
            if not case.needs <= features
        }

    def _calibrate(self, link: str, toxic: str) -> None:
        if (link, toxic) in self._calibrated:
            return
        wire = self.lab.wire(link)
        with closing(self.run.world.round_trip(self.lab, link)) as probe:
            self._calibrated[link, toxic] = calibrated(wire, catalogue.toxic(toxic), probe)
            clear(wire)

    def _follow(self, faults: list[record.Fault]) -> None:
        """Correct the next use of a toxic by its realised round trip: a busy proxy's timers are not an idle one's."""
        for fault in faults:
            asked = catalogue.toxic(fault.toxic)
            if fault.seen and fault.during:
                toxic = self._calibrated[fault.link, fault.toxic]
                self._calibrated[fault.link, fault.toxic] = corrected_by(toxic, asked, fault.during.p50)

    def rounds(self) -> str:
        """Round after round until every claim is decided or the plan's limit is reached: "decided" or "round limit".

        After the plan's first rounds only the cases of claims that are still open are measured.
        """
        plan = self.run.preset
        for number, order in schedule(self.cases, plan.max_rounds, self.run.seed):
            still_open = self._open_cases() if number > plan.min_rounds else {case.name for case in order}
            if not still_open:
                return "decided"
            chosen = [case for case in order if case.name in still_open]
            for position, case in enumerate(chosen, 1):
                rounds = f"round {number} of {plan.min_rounds}-{plan.max_rounds}"
                self.run.tell(f"{self.engine}, {rounds}, {position}/{len(chosen)}: {case.about}")
                self._measure_quietly(case, number)
        return "round limit" if self._open_cases() else "decided"

    def _open_cases(self) -> set[str]:
        """The cases of claims that another round may decide."""
        judgements = self.experiment.judge(self.run.journal.record, self.engine)
        unsettled = {judgement.claim for judgement in judgements if not judgement.settled}
        return {case for claim in self.experiment.claims if claim.id in unsettled for case in claim.relation.cases}

    def _measure_quietly(self, case: Case, number: int) -> None:
        """Measure a case; again when somebody else was busy on the machine, but not for ever."""
        for _ in range(1 + NOISY_REPEATS):
            found = self._measure(case, number)
            self.run.journal.write(found)
            if found.noise.quiet:
                return
            self.run.tell(f"  noisy: {found.noise.why}; measured again")

    def _measure(self, case: Case, number: int) -> record.Measurement:
        began, at = clock.timer(), self.run.world.now()
        parts: dict[str, Any] = {}
        try:
            parts = self._measured(case, number)
        except LabError as error:
            _raise_interruption(error)
            if why := self.lab.why_ended():
                raise LabError(f"during {case.name}: {why}", "every node running", "./lab report latest") from error
            parts["doubts"] = [error.found]
        return record.Measurement(
            engine=self.engine, round=number, case=case.name, at=at, seconds=round(clock.timer() - began, 3), **parts
        )

    def _measured(self, case: Case, number: int) -> dict[str, Any]:
        workload = self.experiment.workload(case, self.run.preset)
        toxics: list[ToxicOnLink] = []
        with self.experiment.arrange(self.lab, case) as watch:
            with ExitStack() as stack:
                toxics += [
                    stack.enter_context(self._toxic(link, name))
                    for link, name in case.settings.get("toxics", {}).items()
                ]
                meter = self.run.world.noise(self.lab)
                outcome = workload.run(self.lab, seed=self.run.seed * 1000 + number)
                noise = meter.read()
            proofs = watch.proofs(outcome.commits, outcome.figures.get("latency_min_ms"))
        faults = [toxic.fault() for toxic in toxics]
        self._follow(faults)
        return {
            "figures": {**outcome.figures, **_trips(faults)},
            "samples": outcome.samples,
            "faults": faults,
            "proofs": proofs,
            "noise": noise,
        }

    @contextmanager
    def _toxic(self, link: str, name: str) -> Iterator[ToxicOnLink]:
        with closing(self.run.world.round_trip(self.lab, link)) as probe:
            with toxic_on(self.lab.wire(link), self._calibrated[link, name], catalogue.toxic(name), probe) as acting:
                yield acting

    def compare_copies(self) -> None:
        """Doubt the run when a replica does not hold what its source holds."""
        source = self.lab.server(self.lab.topology.source.name)
        for node in self.lab.topology.nodes:
            if node.role == "source":
                continue
            copy = self.lab.server(node.name)
            copy.wait_for(source.position())
            differing = [table for table in source.tables("lab") if source.checksum(table) != copy.checksum(table)]
            if differing:
                self.run.journal.write(
                    record.Doubt(
                        engine=self.engine, reason=f"{node.name} differs from the source in {', '.join(differing)}"
                    )
                )


def _raise_interruption(error: BaseException) -> None:
    """Raise the Ctrl-C that `error`, a failure while cleaning up after it, has covered."""
    while error.__context__ is not None:
        error = error.__context__
        if isinstance(error, KeyboardInterrupt):
            raise error


def _trips(faults: list[record.Fault]) -> dict[str, float]:
    """The round trip during the load as a figure, where one link had a toxic that acts on it."""
    timed = [fault.during for fault in faults if fault.unit == "ms" and fault.during]
    return {"rtt_min_ms": timed[0].min, "rtt_p50_ms": timed[0].p50} if len(timed) == 1 else {}
