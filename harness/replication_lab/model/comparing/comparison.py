"""Runs compared with earlier ones: how each figure changed, with its interval, and whether it is worse than allowed."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, geometric_mean

from replication_lab.model.comparing.digest import CaseDigest, Digest, EngineDigest
from replication_lab.model.comparing.run_ratio import MOST_RUNS, RUN_EFFECT, Runs, ratio_of_runs
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.model.core.statistics import Interval, NoInterval, about, interval_between
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.compared_figures import FIGURES, THROUGHPUT

LEVEL = 0.95
# What the second run has of an engine that only the first one measured.
NOT_MEASURED = EngineDigest(version="", settings={}, cases={}, claims={})
# The lab's share of the CPUs differs by less than this between runs of the same server.
ALIKE = 0.05


class ComparedOutcome(StrEnum):
    """The result for one figure of a comparison; the first one that occurs determines the exit code."""

    WORSE = "worse"
    UNKNOWN = "unknown"
    FINE = "not worse"


@dataclass(frozen=True)
class FigureChange:
    """How a figure of a case, or the ratio of a claim, changed: `ratio` is after divided by before.

    `of` is the case or the claim; for a claim `figure` is empty. `judged` means that it counts for the exit code.
    `needed` is about how many rounds in each run would decide a claim's ratio, `needed_runs` how many runs on each side
    a figure. `means` are those of all rounds, not corrected for the speed of the CPUs. `before` and `after` are a
    claim's verdicts, None if it has none. A ratio between the two of `allowed` is not worse.
    """

    engine: str
    of: str
    figure: str
    outcome: ComparedOutcome
    judged: bool
    ratio: Interval | None = None
    reason: str = ""
    needed: int | None = None
    needed_runs: int | None = None
    before: Verdict | None = None
    after: Verdict | None = None
    allowed: tuple[float, float] = (0, math.inf)
    means: tuple[float, float] | None = None


@dataclass(frozen=True)
class RunSet:
    """One or more runs of the same question, measured in the same way; the latest is the last."""

    runs: Sequence[Digest]

    @property
    def latest(self) -> Digest:
        return self.runs[-1]

    def cases(self, engine: str, case: str) -> list[CaseDigest]:
        """Return a case of each run that has it."""
        found = (run.engines[engine].cases.get(case) for run in self.runs if engine in run.engines)
        return [each for each in found if each]

    def ratios(self, engine: str, claim: str) -> list[float]:
        """Return a claim's ratios in all rounds of all runs: both sides of each come from one round."""
        found = (run.engines[engine].claims.get(claim) for run in self.runs if engine in run.engines)
        return [ratio for each in found if each for ratio in each.ratios]


@dataclass(frozen=True)
class Comparison:
    """Runs and other runs: the differences in how they were measured, and the changes of their figures."""

    earlier: RunSet
    later: RunSet
    differs: list[str]
    changes: list[FigureChange]

    @property
    def before(self) -> Digest:
        return self.earlier.latest

    @property
    def after(self) -> Digest:
        return self.later.latest

    @property
    def exit_code(self) -> int:
        """Return FINDING if a judged figure is worse; UNKNOWN if one is, none is judged, or a run shows nothing."""
        outcomes = {change.outcome for change in self.changes if change.judged}
        if ComparedOutcome.WORSE in outcomes:
            return ExitCode.FINDING
        is_open = not outcomes or ComparedOutcome.UNKNOWN in outcomes or self.stopped or self.is_one_run
        return ExitCode.UNKNOWN if is_open else ExitCode.GOOD

    @property
    def is_one_run(self) -> bool:
        """Whether a run is on both sides, which shows nothing: no two begin in the same millisecond on one machine."""
        begun = [{run.started for run in side.runs} for side in (self.earlier, self.later)]
        return self.same_machine and bool(begun[0] & begun[1])

    @property
    def stopped(self) -> list[str]:
        """A line for each run that did not go on to its end."""
        sides = {"first": self.earlier, "second": self.later}
        return [
            f"the {which} run {'' if len(side.runs) == 1 else f'{run.run} '}is not complete: {run.stopped}"
            for which, side in sides.items()
            for run in side.runs
            if run.stopped
        ]

    @property
    def is_one_against_one(self) -> bool:
        return len(self.earlier.runs) == len(self.later.runs) == 1

    @property
    def same_machine(self) -> bool:
        """Whether rates and latencies are compared; if not, only ratios of claims are."""
        return self.before.machine == self.after.machine


def compare(
    before: Sequence[Digest], after: Sequence[Digest], margin: float, figures: Sequence[str] = ()
) -> Comparison:
    """Compare runs with earlier runs of the same experiment or question: one or more on each side.

    If all were made on the same kind of machine, judge the named figures of cases, or, if none is named, the figures by
    which the experiment compares a case. Otherwise judge the ratios of claims, which do not depend on the machine. A
    verdict that became an unexpected one is always worse. Whatever the first runs have and the second ones lack is
    unknown. Raise LabError if the runs are of different experiments or have no engine in common, and if those of one
    side were measured in different ways.
    """
    earlier, later = (RunSet(sorted(side, key=lambda run: run.started)) for side in (before, after))
    old, new = earlier.latest, later.latest
    if (old.experiment, old.question) != (new.experiment, new.question):
        raise LabError(
            f"{old.run} is a run of {_told(old)}, {new.run} of {_told(new)}",
            "two runs of the same experiment or question",
            "./lab list runs",
        )
    _refuse_mixed(earlier)
    _refuse_mixed(later)
    same = old.machine == new.machine
    pairs = _pairs(old, new)
    left_out = [(name, name) for name in old.engines if name not in [first for first, _ in pairs]]
    changes: list[FigureChange] = []
    for engines in [*pairs, *left_out]:
        if same:
            changes += _figures(earlier, later, engines, margin=margin, judged=figures)
        changes += _claims(earlier, later, engines, margin=margin, judged=not same)
    return Comparison(earlier, later, list(_differences(old, new)), changes)


def _refuse_mixed(side: RunSet) -> None:
    latest = side.latest
    for run in side.runs:
        for what in ("experiment", "question", "preset", "conditions", "against", "machine"):
            one, other = getattr(run, what), getattr(latest, what)
            if one != other:
                raise LabError(
                    f"{run.run} and {latest.run} differ in {what}: {_said(one)}; {_said(other)}",
                    "runs that were measured in the same way, to be taken together",
                    "./lab list runs",
                )


def _told(found: Digest) -> str:
    return f"{found.experiment} ({found.question})"


def _pairs(before: Digest, after: Digest) -> list[tuple[str, str]]:
    """Return the engines that are compared: those of the same name, or the only one of each run."""
    if len(before.engines) == len(after.engines) == 1:
        return [(next(iter(before.engines)), next(iter(after.engines)))]
    common = [(name, name) for name in before.engines if name in after.engines]
    if not common:
        raise LabError(
            f"{before.run} measured {', '.join(before.engines)}, {after.run} measured {', '.join(after.engines)}",
            "an engine that both have, or one engine in each",
        )
    return common


def _differences(before: Digest, after: Digest) -> Iterator[str]:
    for what in ("preset", "conditions", "against"):
        old, new = getattr(before, what), getattr(after, what)
        if old != new:
            yield f"{what}: {_said(old)}, {_said(new)}"
    for key in before.environment.keys() | after.environment.keys():
        old, new = before.environment.get(key), after.environment.get(key)
        if old != new:
            yield f"{key}: {old}, {new}"
    loops = [
        [loop for engine in found.engines.values() for case in engine.cases.values() for loop in case.loop_us]
        for found in (before, after)
    ]
    if all(loops):
        said = ", ".join(f"{geometric_mean(each):.0f} us" for each in loops)
        yield f"speed of the CPUs, as the time of a loop: {said}"
    for old_name, new_name in _pairs(before, after):
        old_engine, new_engine = before.engines[old_name], after.engines[new_name]
        if more := [case for case in new_engine.cases if case not in old_engine.cases]:
            yield f"cases of {new_name} in the second run only: {', '.join(more)}"
        if old_name != new_name or old_engine.version != new_engine.version:
            yield f"server: {old_name} {old_engine.version}, {new_name} {new_engine.version}"
        # An older digest lacks most of the changed settings.
        both = old_engine.settings.keys() & new_engine.settings.keys()
        every = old_engine.settings.keys() | new_engine.settings.keys()
        for key in sorted(every if before.schema == after.schema else both):
            old, new = old_engine.settings.get(key), new_engine.settings.get(key)
            if old != new:
                yield f"{key}: {old}, {new}"


def _said(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items()) or "as published"
    return str(value) or "nothing"


def _named(engines: tuple[str, str]) -> str:
    return engines[1] if engines[0] == engines[1] else " and ".join(engines)


def _figures(
    before: RunSet, after: RunSet, engines: tuple[str, str], *, margin: float, judged: Sequence[str]
) -> Iterator[FigureChange]:
    for case, latest in before.latest.engines[engines[0]].cases.items():
        old, new = before.cases(engines[0], case), after.cases(engines[1], case)
        is_measured = case in after.latest.engines.get(engines[1], NOT_MEASURED).cases
        doubts = [doubt for each in (*old, *new) for doubt in each.doubts]
        for figure, known in FIGURES.items():
            blank = FigureChange(
                _named(engines),
                case,
                figure,
                ComparedOutcome.UNKNOWN,
                figure in (judged or latest.compared or (THROUGHPUT,)),
            )
            has_it = any(figure in each.figures for each in (*old, *new))
            if not has_it and not (blank.judged and (doubts or figure in latest.compared)):
                continue
            lacking = [
                which
                for which, side in (("first", old), ("second", new))
                if not all(figure in each.figures for each in side)
            ]
            if not is_measured:
                yield replace(blank, reason="the second run did not measure this case")
            elif doubts:
                yield replace(blank, reason=f"not verified: {doubts[0]}")
            elif lacking:
                yield replace(blank, reason=f"a round of the {' and of the '.join(lacking)} run has no such figure")
            else:
                yield _of_figure(blank, old, new, _allowed(margin, known.more_is_better))


def _of_figure(
    blank: FigureChange, before: list[CaseDigest], after: list[CaseDigest], allowed: tuple[float, float]
) -> FigureChange:
    """Return the change of a figure at an equal speed of the CPUs, where that can be computed.

    A loop shows the speed. It is also slower where the server itself uses the CPUs more. So if the lab did not use them
    alike in both runs, the change is judged as it is, and is unknown where the speed may explain or hide it.
    """
    values = [[case.figures[blank.figure] for case in side] for side in (before, after)]
    if all(run for side in values for run in side):
        old, new = (fmean(value for run in side for value in run) for side in values)
        blank = replace(blank, means=(old, new))
    loops = [[case.loop_us for case in side] for side in (before, after)]
    if [[len(run) for run in side] for side in values] != [[len(run) for run in side] for side in loops]:
        return _judged_runs(blank, values, None, allowed)
    if _used_alike(before, after):
        return _judged_runs(blank, values, (loops[0], loops[1]), allowed)
    change = _judged_runs(blank, values, None, allowed)
    return _whatever_the_cpus(change, _mean(loops[1]) / _mean(loops[0]), allowed)


def _judged_runs(
    blank: FigureChange, values: Sequence[Runs], beside: tuple[Runs, Runs] | None, allowed: tuple[float, float]
) -> FigureChange:
    """Return a change with its ratio and its outcome, and how many runs would decide it."""
    try:
        found = ratio_of_runs(values[0], values[1], LEVEL, beside)
    except NoInterval as error:
        return replace(blank, reason=str(error))
    outcome = _outcome(found.interval.low, found.interval.high, allowed)
    blank = replace(blank, allowed=allowed, ratio=found.interval, outcome=outcome)
    if outcome is not ComparedOutcome.UNKNOWN:
        return blank
    distance = min(found.interval.distance(bound) for bound in allowed if 0 < bound < math.inf)
    needed = found.runs_until(distance)
    told = f"about {needed}" if needed < MOST_RUNS else f"more than {MOST_RUNS}"
    why = f"equal runs are assumed to differ by {RUN_EFFECT:.0%}" if found.is_assumed else ""
    return replace(
        blank, needed_runs=needed, reason="; ".join(filter(None, [why, f"{told} runs on each side would decide it"]))
    )


def _mean(runs: Runs) -> float:
    return geometric_mean(value for run in runs for value in run)


def _used_alike(before: list[CaseDigest], after: list[CaseDigest]) -> bool:
    """Return whether the lab used the CPUs to the same degree on both sides."""
    old, new = (_mean([case.own_cpu for case in side]) for side in (before, after))
    return 1 - ALIKE <= new / old <= 1 / (1 - ALIKE)


def _whatever_the_cpus(change: FigureChange, slower: float, allowed: tuple[float, float]) -> FigureChange:
    """Return the change; it is unknown if CPUs that were `slower` times as slow may explain it, or hide another one.

    CPUs have no effect on a load that only waits for disks and links, and their full effect on one that only computes.
    So the outcome has to be the same for the measured ratio and for the ratio corrected by the full effect.
    """
    if change.ratio is None or change.outcome is ComparedOutcome.UNKNOWN:
        return change
    factor = slower if FIGURES[change.figure].more_is_better else 1 / slower
    if _outcome(change.ratio.low * factor, change.ratio.high * factor, allowed) is change.outcome:
        return change
    does = "explain the change" if change.outcome is ComparedOutcome.WORSE else "hide a change"
    return replace(
        change,
        outcome=ComparedOutcome.UNKNOWN,
        reason=f"a loop took {slower:.2f} times as long on the CPUs in the second run, which may {does}; to exclude "
        "that, measure both in the same rounds: lab run --against, lab ask --vary",
    )


def _claims(
    before: RunSet, after: RunSet, engines: tuple[str, str], *, margin: float, judged: bool
) -> Iterator[FigureChange]:
    engine, was = _named(engines), before.latest.engines[engines[0]].claims
    claims = after.latest.engines.get(engines[1], NOT_MEASURED).claims
    for name, old in was.items():
        new = claims.get(name)
        became = new.verdict if new else None
        blank = FigureChange(engine, name, "", ComparedOutcome.UNKNOWN, judged, before=old.verdict, after=became)
        if new is None:
            yield replace(blank, reason="the second run did not judge this claim")
        elif new.unexpected and not old.unexpected:
            reason = f"the verdict became {new.verdict}, which is unexpected"
            yield replace(blank, outcome=ComparedOutcome.WORSE, judged=True, reason=reason)
        elif old.ratios and new.ratios:
            ratios = before.ratios(engines[0], name), after.ratios(engines[1], name)
            yield _judged(blank, *ratios, _allowed(margin, new.more_is_better))
        elif old.ratios or new.ratios:
            which = "second" if old.ratios else "first"
            yield replace(blank, reason=f"a round of the {which} run has no such ratio, or it was not verified")
        elif old.verdict != new.verdict or new.verdict is Verdict.UNKNOWN:
            unknown = Verdict.UNKNOWN in (old.verdict, new.verdict)
            outcome = ComparedOutcome.UNKNOWN if unknown else ComparedOutcome.FINE
            yield replace(blank, outcome=outcome, reason="only the verdict can be compared")

    for name, new in claims.items():
        if name not in was and new.unexpected:
            reason = f"the verdict is {new.verdict}, which is unexpected, and the first run did not judge this claim"
            yield FigureChange(engine, name, "", ComparedOutcome.UNKNOWN, judged=True, reason=reason, after=new.verdict)


def _allowed(margin: float, more_is_better: bool | None) -> tuple[float, float]:
    """Return the bounds of a ratio that is not worse."""
    return (0 if more_is_better is False else 1 - margin), (math.inf if more_is_better else 1 + margin)


def _judged(blank: FigureChange, before: list[float], after: list[float], allowed: tuple[float, float]) -> FigureChange:
    """Return a change with its ratio, after divided by before, and its outcome: within the `allowed` bounds or not."""
    try:
        ratio = interval_between(before, after, LEVEL)
    except NoInterval as error:
        return replace(blank, reason=str(error))
    outcome = _outcome(ratio.low, ratio.high, allowed)
    blank = replace(blank, allowed=allowed, ratio=ratio, outcome=outcome)
    if outcome is not ComparedOutcome.UNKNOWN:
        return blank
    needed = ratio.rounds_until(min(ratio.distance(bound) for bound in allowed if 0 < bound < math.inf))
    return replace(blank, needed=needed, reason=f"{about(needed)} rounds in each run would decide it")


def _outcome(low: float, high: float, allowed: tuple[float, float]) -> ComparedOutcome:
    """Return the outcome of an interval of a ratio: within the bounds, beyond them, or across one."""
    if allowed[0] <= low and high <= allowed[1]:
        return ComparedOutcome.FINE
    return ComparedOutcome.WORSE if high < allowed[0] or allowed[1] < low else ComparedOutcome.UNKNOWN
