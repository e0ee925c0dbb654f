"""An experiment that is measured against another server, a my.cnf file, or the Compose files of another commit."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from replication_lab.experiments._question_topologies import refuse_a_file_for_machines
from replication_lab.experiments._question_variables import Kept, WithSettings
from replication_lab.lab import start_options
from replication_lab.model.against import GIT, Against
from replication_lab.model.claim import Claim
from replication_lab.model.errors import LabError
from replication_lab.model.experiment import Case, Experiment, Preset
from replication_lab.model.measuring import Watch
from replication_lab.model.option_file import options_of
from replication_lab.model.quantities import Figure, throughput
from replication_lab.model.question_files import CNF
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
    claims = tuple(
        _no_slower(case, asked, Figure(case.name, "throughput", asked.server), f"that {asked.server} does")
        for case in experiment.cases
    )
    return replace(
        experiment,
        claims=(*experiment.claims, *claims),
        engines=tuple(dict.fromkeys([*experiment.engines, asked.server])),
        side_by_side=True,
        against=asked,
    )


def _no_slower(case: Case, asked: Against, other: Figure, whose: str) -> Claim:
    return Claim(
        f"against:{case.name}",
        f"{case.about or case.name}: at least {1 - asked.margin:.0%} of the commits/s {whose} in the same rounds",
        throughput(case.name).over(other).at_least(1 - asked.margin),
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
    claims = tuple(
        _no_slower(case, asked, throughput(twins[case.name].name), f"with {asked.name}") for case in experiment.cases
    )
    return replace(
        experiment,
        cases=(*experiment.cases, *twins.values()),
        claims=(*experiment.claims, *claims),
        presets={name: _of_both(preset, twins) for name, preset in experiment.presets.items()},
        arrange=_Started(experiment).arrange,
        against=asked,
    )


def _twin(experiment: Experiment[Lab], case: Case, asked: Against) -> Case:
    lab = experiment.lab_of(case)
    if asked.cnf:
        options_of(asked.cnf)
        refuse_a_file_for_machines(CNF, catalogue.topology(lab.topology))
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
            kept = Kept(lab, [], start_options.on_every_node(lab, file)) if file else None
            yield WithSettings(watch, kept) if kept else watch
