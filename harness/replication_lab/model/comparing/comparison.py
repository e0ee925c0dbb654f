"""Two runs compared: how each figure changed, with its interval, and whether that is worse than a margin allows."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from statistics import geometric_mean

from replication_lab.model.comparing.digest import CaseDigest, Digest, EngineDigest
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.statistics import (
    Interval,
    NoInterval,
    about,
    interval_between,
    interval_between_at_equal,
)
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
    `needed` is about the number of rounds in each run that would decide it. `before` and `after` are a claim's
    verdicts, None if it has none. A ratio between the two of `allowed` is not worse.
    """

    engine: str
    of: str
    figure: str
    outcome: ComparedOutcome
    judged: bool
    ratio: Interval | None = None
    reason: str = ""
    needed: int | None = None
    before: Verdict | None = None
    after: Verdict | None = None
    allowed: tuple[float, float] = (0, math.inf)


@dataclass(frozen=True)
class Comparison:
    """Two runs: the differences in how they were measured, and the changes of their figures."""

    before: Digest
    after: Digest
    differs: list[str]
    changes: list[FigureChange]

    @property
    def exit_code(self) -> int:
        """Return 1 if a judged figure is worse; 2 if one is unknown, none is judged, or a run shows nothing; else 0."""
        outcomes = {change.outcome for change in self.changes if change.judged}
        if ComparedOutcome.WORSE in outcomes:
            return 1
        return 2 if not outcomes or ComparedOutcome.UNKNOWN in outcomes or self.stopped or self.is_one_run else 0

    @property
    def is_one_run(self) -> bool:
        """Whether both are the same run, which shows nothing: no two begin in the same millisecond on one machine."""
        return self.same_machine and self.before.started == self.after.started

    @property
    def judges_nothing(self) -> bool:
        return not any(change.judged for change in self.changes)

    @property
    def stopped(self) -> list[str]:
        """A line for each of the two runs that did not go on to its end."""
        runs = {"first": self.before, "second": self.after}
        return [f"the {which} run is not complete: {run.stopped}" for which, run in runs.items() if run.stopped]

    @property
    def same_machine(self) -> bool:
        """Whether rates and latencies are compared; if not, only ratios of claims are."""
        return self.before.machine == self.after.machine


def compare(before: Digest, after: Digest, margin: float, figures: Sequence[str] = ()) -> Comparison:
    """Compare two runs of the same experiment or question.

    If both runs were made on the same kind of machine, judge the named figures of cases, or, if none is named, the
    figures by which the experiment compares a case. Otherwise judge the ratios of claims, which do not depend on the
    machine. A verdict that became an unexpected one is always worse. Whatever the first run has and the second one
    lacks is unknown. Raise LabError if the runs are of different experiments or have no engine in common.
    """
    if (before.experiment, before.question) != (after.experiment, after.question):
        raise LabError(
            f"{before.run} is a run of {_told(before)}, {after.run} of {_told(after)}",
            "two runs of the same experiment or question",
            "./lab list runs",
        )
    same = before.machine == after.machine
    pairs = _pairs(before, after)
    left_out = [(name, name) for name in before.engines if name not in [old for old, _ in pairs]]
    changes: list[FigureChange] = []
    for old, new in [*pairs, *left_out]:
        name = new if old == new else f"{old} and {new}"
        both = (before.engines[old], after.engines.get(new, NOT_MEASURED))
        if same:
            changes += _figures(name, *both, margin=margin, judged=figures)
        changes += _claims(name, *both, margin=margin, judged=not same)
    return Comparison(before, after, list(_differences(before, after)), changes)


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
    """Yield a line for each difference in how the runs were measured."""
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


def _figures(
    engine: str, before: EngineDigest, after: EngineDigest, *, margin: float, judged: Sequence[str]
) -> Iterator[FigureChange]:
    for case, old in before.cases.items():
        new = after.cases.get(case)
        doubts = [*old.doubts, *(new.doubts if new else ())]
        for figure, known in FIGURES.items():
            blank = FigureChange(
                engine, case, figure, ComparedOutcome.UNKNOWN, figure in (judged or old.compared or (THROUGHPUT,))
            )
            has_it = figure in old.figures or (new is not None and figure in new.figures)
            if not has_it and not (blank.judged and (doubts or figure in old.compared)):
                continue
            if new is None:
                yield replace(blank, reason="the second run did not measure this case")
            elif doubts:
                yield replace(blank, reason=f"not verified: {doubts[0]}")
            elif figure in old.figures and figure in new.figures:
                yield _of_figure(blank, old, new, _allowed(margin, known.more_is_better))
            else:
                without = [each for each, found in (("first", old), ("second", new)) if figure not in found.figures]
                yield replace(blank, reason=f"a round of the {' and of the '.join(without)} run has no such figure")


def _of_figure(
    blank: FigureChange, before: CaseDigest, after: CaseDigest, allowed: tuple[float, float]
) -> FigureChange:
    """Return the change of a figure at an equal speed of the CPUs, where that can be computed.

    A loop shows the speed. It is also slower where the server itself uses the CPUs more. So if the lab did not use them
    alike in both runs, the change is judged as it is, and is unknown where the speed may explain or hide it.
    """
    values = before.figures[blank.figure], after.figures[blank.figure]
    if [len(side) for side in values] != [len(before.loop_us), len(after.loop_us)]:
        return _judged(blank, partial(interval_between, *values, LEVEL), allowed)
    if _used_alike(before, after):
        beside = before.loop_us, after.loop_us
        return _judged(blank, partial(interval_between_at_equal, *values, beside, LEVEL), allowed)
    change = _judged(blank, partial(interval_between, *values, LEVEL), allowed)
    return _whatever_the_cpus(change, _times_as_slow(before, after), allowed)


def _used_alike(before: CaseDigest, after: CaseDigest) -> bool:
    """Return whether the lab used the CPUs to the same degree in both runs."""
    return 1 - ALIKE <= geometric_mean(after.own_cpu) / geometric_mean(before.own_cpu) <= 1 / (1 - ALIKE)


def _times_as_slow(before: CaseDigest, after: CaseDigest) -> float:
    """Return how many times as long the loop took in the second run."""
    return geometric_mean(after.loop_us) / geometric_mean(before.loop_us)


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
    engine: str, before: EngineDigest, after: EngineDigest, *, margin: float, judged: bool
) -> Iterator[FigureChange]:
    for name, old in before.claims.items():
        new = after.claims.get(name)
        became = new.verdict if new else None
        blank = FigureChange(engine, name, "", ComparedOutcome.UNKNOWN, judged, before=old.verdict, after=became)
        if new is None:
            yield replace(blank, reason="the second run did not judge this claim")
        elif new.unexpected and not old.unexpected:
            reason = f"the verdict became {new.verdict}, which is unexpected"
            yield replace(blank, outcome=ComparedOutcome.WORSE, judged=True, reason=reason)
        elif old.ratios and new.ratios:
            values = old.ratios, new.ratios
            yield _judged(blank, partial(interval_between, *values, LEVEL), _allowed(margin, new.more_is_better))
        elif old.ratios or new.ratios:
            which = "second" if old.ratios else "first"
            yield replace(blank, reason=f"a round of the {which} run has no such ratio, or it was not verified")
        elif old.verdict != new.verdict or new.verdict is Verdict.UNKNOWN:
            unknown = Verdict.UNKNOWN in (old.verdict, new.verdict)
            outcome = ComparedOutcome.UNKNOWN if unknown else ComparedOutcome.FINE
            yield replace(blank, outcome=outcome, reason="only the verdict can be compared")

    for name, new in after.claims.items():
        if name not in before.claims and new.unexpected:
            reason = f"the verdict is {new.verdict}, which is unexpected, and the first run did not judge this claim"
            yield FigureChange(engine, name, "", ComparedOutcome.UNKNOWN, judged=True, reason=reason, after=new.verdict)


def _allowed(margin: float, more_is_better: bool | None) -> tuple[float, float]:
    """Return the bounds of a ratio that is not worse."""
    return (0 if more_is_better is False else 1 - margin), (math.inf if more_is_better else 1 + margin)


def _judged(blank: FigureChange, interval: Callable[[], Interval], allowed: tuple[float, float]) -> FigureChange:
    """Return a change with its ratio, after divided by before, and its outcome: within the `allowed` bounds or not."""
    try:
        ratio = interval()
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
