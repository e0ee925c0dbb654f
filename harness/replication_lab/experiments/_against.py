"""An experiment that is measured against another server, a my.cnf file, or the Compose files of another commit."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from replication_lab.experiments.question.topologies import refuse_a_file_for_machines
from replication_lab.lab import start_options
from replication_lab.model.core.errors import LabError
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.compared_figures import FIGURES, THROUGHPUT
from replication_lab.model.experiment.experiment import Experiment, Preset
from replication_lab.model.experiment.measuring import AlsoProves, Watch
from replication_lab.model.experiment.quantities import Figure, Ratio
from replication_lab.model.lab.option_file import options_of
from replication_lab.model.question.setting import CNF, setting
from replication_lab.model.record.against import GIT, Against
from replication_lab.world import catalogue, revisions
from replication_lab.world.docker.lab import Lab


def compared(experiment: Experiment[Lab], asked: Against) -> Experiment[Lab]:
    """Return the experiment that also measures what it is compared with, with a claim for each case.

    Raise LabError for an experiment that cannot be compared, and for an impossible margin.
    """
    if not 0 < asked.margin < 1:
        raise LabError(f"--margin is {asked.margin:.0%}", "more than 0 % and less than 100 %", "--margin 10%")
    return _with_server(experiment, asked) if asked.server else _with_twins(experiment, asked)


def _with_server(experiment: Experiment[Lab], asked: Against) -> Experiment[Lab]:
    """Return the experiment on the labs of two engines, which run at once; its own claims are judged for both."""
    if experiment.side_by_side:
        raise LabError(
            f"--against {asked.server}: {experiment.name} compares engines already",
            "an experiment that measures one engine after another",
            f"./lab run {experiment.name} --engine {asked.server},{experiment.default_engines[-1]}",
        )
    claims = _claims(
        experiment,
        asked,
        lambda case, figure: Figure(case, figure) / Figure(case, figure, asked.server),
        f"of {asked.server}",
    )
    return replace(
        experiment,
        claims=(*experiment.claims, *claims),
        engines=tuple(dict.fromkeys([*experiment.engines, asked.server])),
        side_by_side=True,
        against=asked,
    )


def _claims(
    experiment: Experiment[Lab],
    asked: Against,
    ratio: Callable[[str, str], Ratio],
    whose: str,
    judged: Mapping[str, str] | None = None,
) -> tuple[Claim, ...]:
    """Return a claim for each compared figure of each case: it is not worse by more than the margin.

    `ratio` returns the judged ratio, given the names of a case and a figure. `judged` describes by case what is judged,
    where it is not the case itself.
    """
    told = {case.name: case.about or case.name for case in experiment.cases} | dict(judged or {})
    return tuple(
        _no_worse(case.name, told[case.name], figure, asked, ratio(case.name, figure), whose)
        for case in experiment.cases
        for figure in experiment.compared_of(case)
    )


def _no_worse(case: str, told: str, figure: str, asked: Against, ratio: Ratio, whose: str) -> Claim:
    known = FIGURES[figure]
    allowed = f"at least {1 - asked.margin:.0%}" if known.more_is_better else f"at most {1 + asked.margin:.0%}"
    return Claim(
        f"against:{asked.reference}:{case}{'' if figure == THROUGHPUT else f':{figure}'}",
        f"{told}: {allowed} of the {known.words} {whose} in the same rounds",
        ratio >= 1 - asked.margin if known.more_is_better else ratio <= 1 + asked.margin,
        compares=True,
    )


def _with_twins(experiment: Experiment[Lab], asked: Against) -> Experiment[Lab]:
    """Return the experiment with each case twice: the second one on a lab with the file, or of the commit."""
    if experiment.conditions.keys() - {"rtt"}:
        raise LabError(
            f"--against {asked.name} with --set, --cnf, --storage or --disk",
            "one comparison: with --against, or with the other options",
            f"./lab run {experiment.name} --against {asked.name}",
        )
    twins = {case.name: _twin(experiment, case, asked) for case in experiment.cases}
    names = {case: twin.name for case, twin in twins.items()}
    judged = {case: twin.about for case, twin in twins.items()} if asked.cnf else {}
    whose = "without it" if asked.cnf else f"with {asked.name}"
    claims = _claims(experiment, asked, lambda case, figure: _over(case, names[case], figure, asked), whose, judged)
    return replace(
        experiment,
        cases=(*experiment.cases, *twins.values()),
        claims=(*experiment.claims, *claims),
        presets={name: _of_both(preset, twins) for name, preset in experiment.presets.items()},
        arrange=_Started(experiment).arrange,
        against=asked,
    )


def _over(case: str, twin: str, figure: str, asked: Against) -> Ratio:
    """Return the judged ratio: a file is judged against the servers without it, the lab against another commit."""
    own, other = Figure(case, figure), Figure(twin, figure)
    return other / own if asked.cnf else own / other


def _twin(experiment: Experiment[Lab], case: Case, asked: Against) -> Case:
    lab = experiment.lab_of(case)
    if asked.cnf:
        options_of(asked.cnf)
        refuse_a_file_for_machines(setting(CNF), catalogue.topology(lab.topology))
        lab = replace(lab, cnf=asked.cnf)
    else:
        lab = replace(lab, topology=f"{lab.topology}{revisions.SEPARATOR}{asked.commit}")
    about = f"{case.about or case.name}, with {asked.name}"
    return replace(case, name=_name(case.name, asked), about=about, lab=lab)


def _name(case: str, asked: Against) -> str:
    return f"{case}@{asked.name.removeprefix(GIT)}"


def twins_of(experiment: Experiment[Lab], case: str) -> list[str]:
    """Return a case, and the same case with what the experiment is compared with, if it is measured on another lab."""
    against = experiment.against
    return [case, _name(case, against)] if against and not against.server else [case]


def _of_both(preset: Preset, twins: dict[str, Case]) -> Preset:
    return replace(preset, cases=tuple(name for case in preset.cases for name in (case, twins[case].name)))


@dataclass(frozen=True)
class _Started:
    """An experiment of which some labs were started with a file, and the proof of its options over each load."""

    experiment: Experiment[Lab]

    @contextmanager
    def arrange(self, lab: Lab, case: Case) -> Iterator[Watch]:
        file = case.lab.cnf if case.lab else None
        with self.experiment.arrange(lab, case) as watch:
            options = start_options.on_every_node(lab, file) if file else {}
            yield AlsoProves(watch, lambda: start_options.proofs(lab, options))
