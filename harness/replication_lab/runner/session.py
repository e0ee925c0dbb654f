"""One engine's share of a run: its labs calibrated, its cases measured, its copies compared."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from replication_lab import replication
from replication_lab.faults.toxic_calibration import calibrated, clear, corrected_by, timers_of, undisturbed
from replication_lab.faults.toxic_watch import ToxicOnLink, toxic_on
from replication_lab.lab import disks, start_options
from replication_lab.model.core.errors import LabError, TooSlow
from replication_lab.model.core.event import Doubt
from replication_lab.model.core.noise import ACCEPT, STOP, Noise
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.evidence import longest_queues
from replication_lab.model.experiment.case import Case, LabSpec
from replication_lab.model.experiment.experiment import Experiment
from replication_lab.model.lab.toxic import Toxic
from replication_lab.model.record.load_timeline import timeline_of, waited_after
from replication_lab.model.record.measurement import Measurement, SeenToxic
from replication_lab.probes.noise import NoiseMeter
from replication_lab.runner.described import came_up
from replication_lab.world import at_once, clock, signals
from replication_lab.world.disks import array
from replication_lab.world.docker.lab import Lab

if TYPE_CHECKING:  # a run opens its sessions
    from replication_lab.runner.rounds import Run
    from replication_lab.runner.world import World

Entered = TypeVar("Entered")
NOISY_REPEATS = 2
# CPUs that are slower than the run's median by more than this share were disturbed by what no counter shows, such as
# the host of a virtual machine. So many measurements tell the median, and that of a case.
SLOWER, FEWEST_SPEEDS = 0.15, 3

# (lab, link, toxic) by name; a condition by number has its shortest spelling.
Key = tuple[str, str, str]


class Calibration:
    """The toxics of one engine's links: calibrated once, then corrected by the measurements of each use."""

    def __init__(self, world: "World"):
        self._world = world
        self._found: dict[Key, Toxic] = {}

    def prepare(self, wanted: Iterable[tuple[Lab, str, Toxic]]) -> None:
        """Calibrate the toxics of links: links in parallel, but only one toxic on a link at a time."""
        by_key = {(lab.name, link, toxic.name): (lab, link, toxic) for lab, link, toxic in wanted}
        for name in dict.fromkeys(toxic for _, _, toxic in by_key):
            mine = {key: each for key, each in by_key.items() if key[2] == name}
            found = at_once.of_each(lambda each: self._calibrate(*each), mine.values())
            self._found |= zip(mine, found, strict=True)

    def _calibrate(self, lab: Lab, link: str, toxic: Toxic) -> Toxic:
        with closing(self._world.round_trip(lab, link)) as probe:
            found = calibrated(lab.link(link), toxic, probe)
            clear(lab.link(link))
        return found

    @contextmanager
    def toxic(self, lab: Lab, link: str, asked: Toxic) -> Iterator[ToxicOnLink]:
        """Put a toxic on a link within the block, as it was calibrated."""
        with closing(self._world.round_trip(lab, link)) as probe:
            with toxic_on(lab.link(link), self._found[lab.name, link, asked.name], asked, probe) as acting:
                yield acting

    def follow(self, lab: Lab, toxics: Mapping[str, Toxic], faults: list[SeenToxic]) -> None:
        """Correct a toxic's next use by the measured round trip: a busy proxy's timers differ from an idle one's."""
        for fault in faults:
            asked = toxics[fault.link]
            if fault.unit == "ms" and fault.seen and fault.during:
                key, timers = (lab.name, fault.link, fault.toxic), timers_of(lab.link(fault.link))
                typical = undisturbed(fault.during.min, fault.during.p50, timers)
                self._found[key] = corrected_by(self._found[key], asked, typical, fault.before or 0.0, timers)


@dataclass
class EngineSession:
    """The rounds of a run on one engine's labs, which all run at the same time."""

    run: "Run"
    labs: dict[LabSpec, Lab]
    engine: str
    site: str = ""

    def __post_init__(self) -> None:
        self.experiment: Experiment[Lab] = self.run.experiment
        self.calibration = Calibration(self.run.world)
        self.preset = self.run.preset
        # The first site on the machine of this one.
        self.machine = self.run.machines[self.site]

    @property
    def cases(self) -> list[Case]:
        return [case for case in self._own(self.experiment.chosen(self.preset)) if not self._lacks(case)]

    def _own(self, cases: Iterable[Case]) -> list[Case]:
        """Return the cases that this engine supports."""
        return [case for case in cases if self.experiment.lab_of(case).engine in ("", self.engine)]

    def _lacks(self, case: Case) -> list[str]:
        """Return the features that a case needs and its lab's running servers lack."""
        return sorted(case.needs - self.lab_of(case).features) if case.needs else []

    def lab_of(self, case: Case) -> Lab:
        return self.labs[self.experiment.lab_of(case).on(self.engine, self.site)]

    def open(self) -> None:
        """Record what came up, prepare the workload, and calibrate the toxics that the cases need."""
        self.run.up[self.machine].extend(self.labs.values())
        first = next(iter(self.labs.values()))
        self.preset = self.run.preset.on(first.node(first.topology.source.name).server().dialect.family)
        not_applicable = self._not_applicable()
        for spec, lab in self.labs.items():
            started_with = start_options.on_every_node(lab, spec.cnf) if spec.cnf else {}
            start_options.start_with(lab, started_with)
            if self.experiment.prepare:
                self.experiment.prepare(lab)
            # An experiment may set the same variable itself.
            start_options.refuse_unproved(lab, started_with)
            if self.experiment.fill:
                self.run.tell(f"{self.engine}: filling {spec.about} with rows")
                self.experiment.fill(lab, self.preset)
            for reason in lab.not_done:
                self.run.journal.write(Doubt(engine=self.engine, reason=reason))
            server, known = lab.node(lab.topology.source.name).server(), self.experiment
            self.run.journal.write(came_up(lab, server, known.settings, known.disks, not_applicable, spec.about))
            if lab.clients_are_beside:
                # Now: during a measurement a container that starts would be what others do to the lab.
                lab.clients_place.call(clock.timer)
        self.calibration.prepare(
            (self.lab_of(case), link, toxic) for case in self.cases for link, toxic in case.toxics.items()
        )

    def _not_applicable(self) -> dict[str, str]:
        own, chosen = self._own(self.experiment.cases), self.experiment.chosen(self.preset)
        missing = {
            case.name: f"{self.engine} has no {' and no '.join(lacks)}"
            for case in own
            if case in chosen and (lacks := self._lacks(case))
        }
        left_out = self.experiment.only.why_not_measured or f"the preset {self.preset.name} does not contain it"
        return missing | {case.name: left_out for case in own if case not in chosen}

    def measure_quietly(self, case: Case, number: int) -> bool:
        """Measure a case; repeat it, up to a limit, if the machine was noisy or too slow for a proof.

        Return whether a measurement counts.
        """
        for repeats in range(NOISY_REPEATS, -1, -1):
            found = self._measure(case, number)
            # A load that cannot be read stays unknown: waiting and measuring again would change nothing.
            given_up = not found.noise.readable and self.run.asked.noise != STOP
            if not found.noise.quiet and (given_up or self.run.asked.noise == ACCEPT):
                found = replace(found, noise=replace(found.noise, accepted=True))
            self.run.journal.write(found)
            if found.disturbed and (not found.counts or self.run.asked.noise == ACCEPT):
                self.run.tell(f"  {'too slow' if found.slow else 'noisy'}: {found.disturbed}")
            if found.counts:
                return True
            if self.run.asked.noise == STOP:
                break
            if repeats and not self.run.wait_for_quiet(self.machine):
                break
        return False

    def _measure(self, case: Case, number: int) -> Measurement:
        began = clock.timer()
        blank = Measurement(engine=self.engine, round=number, case=case.name, at=self.run.world.now(), site=self.site)
        with closing(self.run.world.noise(self.run.up[self.machine], self.machine)) as meter:
            try:
                found = self._filled(blank, case, meter)
            except LabError as error:
                signals.raise_interruption(error)
                if why := next(filter(None, (lab.exit_reason() for lab in self.run.up[self.machine])), ""):
                    raise LabError(
                        f"during case {case.name}: {why}", "every node running", "./lab report latest"
                    ) from error
                full = [*filter(None, map(disks.full, array.arrays(self.lab_of(case)).values()))]
                told: dict[str, Any] = {"doubts": [error.found, *full]}
                if isinstance(error, TooSlow) and not full:
                    proof = Proof("the measurement", error.found, ok=False, expected=error.expected, slow=True)
                    told = {"proofs": [proof]}
                found = replace(blank, noise=meter.read(), **told)
        return replace(found, seconds=round(clock.timer() - began, 3))

    def _filled(self, blank: Measurement, case: Case, meter: NoiseMeter) -> Measurement:
        lab = self.lab_of(case)
        workload = self.experiment.workload(case, self.preset)
        with self.run.world.observing(lab, case.toxics) as witnesses, self.experiment.arrange(lab, case) as watch:
            put_on = [self.calibration.toxic(lab, link, toxic) for link, toxic in case.toxics.items()]
            looking = self.run.world.watching(lab) if self.experiment.watched else nullcontext([])
            with all_at_once(put_on) as toxics:
                with looking as looked, self.run.world.cpu_speed(self.machine) as speed:
                    meter.restart()
                    began = clock.timer()
                    outcome = workload.run(lab, self.run.next_seed())
                    ran = began, clock.timer()
                    noise = meter.read()
                    observed = [each.proof((0.0, ran[1] - began)) for each in witnesses.observations(began)]
            noise = self._with_speed(noise, case, speed.loop_us)
            counted = watch.figures()
            fastest = getattr(outcome, "fastest_commit_ms", outcome.figures.get("latency_min_ms"))
            proofs = [*observed, *watch.proofs(outcome.commits, fastest), *getattr(outcome, "proofs", ())]
        faults = [fault for toxic in toxics for fault in toxic.faults()]
        if noise.quiet:
            self.calibration.follow(lab, case.toxics, faults)
        queues = longest_queues(one for one in looked if ran[0] <= one.at <= ran[1])
        figures = {**outcome.figures, **counted, **queues, **trips(faults)}
        moments = getattr(outcome, "moments", None)
        return replace(
            blank,
            figures=figures,
            samples=dict(outcome.samples) if getattr(workload, "keeps_samples", True) else {},
            faults=faults,
            proofs=proofs,
            doubts=self.run.world.doubts(workload, self.site),
            noise=noise,
            timeline=timeline_of(moments, looked, ran, waited_after(outcome.figures)) if moments else None,
            findings=getattr(outcome, "findings", {}),
        )

    def _with_speed(self, noise: Noise, case: Case, loop_us: float | None) -> Noise:
        """Add the CPUs' speed to the noise; they were disturbed if they were far slower than usual in this run."""
        before = [(m.case, m.noise.loop_us) for m in self.run.journal.record.measurements if m.site == self.site]
        every = [us for _, us in before if us]
        of_case = [us for name, us in before if us and name == case.name]
        noise = replace(noise, loop_us=loop_us)
        if not loop_us or len(every) < FEWEST_SPEEDS or not noise.quiet:
            return noise
        # A load of its own may use both halves of a core: then it is always as slow.
        usual = max([median(every), *([median(of_case)] if len(of_case) >= FEWEST_SPEEDS else [])])
        slower = loop_us / usual - 1
        if slower <= SLOWER:
            return noise
        why = f"the CPUs were {slower:.0%} slower than usual in this run (limit {SLOWER:.0%})"
        return replace(noise, quiet=False, why=why)

    def compare_copies(self) -> None:
        """Record a doubt of the run if a copy differs from its source, or from its cluster's first node."""
        for spec, lab in self.labs.items():
            self.run.tell(f"{self.engine}: comparing the copies of {spec.about}")
            try:
                reasons = replication.of(lab).differences()
            except LabError as error:
                reasons = [f"copies could not be compared: {error.found}"]
            for reason in reasons:
                self.run.journal.write(Doubt(engine=self.engine, reason=reason))


@contextmanager
def all_at_once(parts: Sequence[AbstractContextManager[Entered]]) -> Iterator[list[Entered]]:
    """Enter all parts at the same time, each in a thread of its own, and exit them in the same way.

    So six links, each with a WAN's round trips to wait for, take as long as one. If a part fails, the others are exited
    and the first error is raised.
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


def trips(faults: list[SeenToxic]) -> dict[str, float]:
    """Return the round trip during the load as a figure, if all links with a toxic should have the same one.

    The median is that of the typical link (the median of the links' medians). The shortest is that of any link: no
    commit that waits for a link can be faster. Links with different round trips have no common one, so there is no
    figure.
    """
    timed = [fault.during for fault in faults if fault.unit == "ms" and fault.during]
    if not timed or len(timed) < len(faults) or len({fault.asked for fault in faults}) > 1:
        return {}
    return {"rtt_min_ms": min(trip.min for trip in timed), "rtt_p50_ms": round(median(t.p50 for t in timed), 3)}
