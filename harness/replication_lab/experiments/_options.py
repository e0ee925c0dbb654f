"""What the options of `lab run` change: settings, the cases and claims, and what they are compared with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from replication_lab.experiments.question.disks import on_disks, storage_of
from replication_lab.experiments.question.topologies import nodes_with_servers, refuse_a_file_for_machines
from replication_lab.experiments.question.variables import server_settings, with_servers
from replication_lab.lab import start_options
from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.statistics import FEWEST_OF_A_MEAN
from replication_lab.model.experiment.case import Case, LabSpec
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.compared_figures import FIGURES, THROUGHPUT
from replication_lab.model.experiment.experiment import Arrange, Experiment, Preset
from replication_lab.model.experiment.measuring import AlsoProves, Watch
from replication_lab.model.experiment.quantities import Figure, Ratio
from replication_lab.model.lab.option_file import options_of
from replication_lab.model.question.server_options import ServerOptions, server_options
from replication_lab.model.question.setting import CNF, Values, setting
from replication_lab.model.question.validation import refuse_bad_files, refuse_bad_setting
from replication_lab.model.record.chosen import GIT, Against, Only
from replication_lab.world import catalogue, revisions
from replication_lab.world.docker.lab import Lab

MOST_ROUNDS = 100


def restricted(experiment: Experiment[Lab], preset: str, only: Only) -> Experiment[Lab]:
    """Return the experiment with a preset that measures and judges only this part. Raise LabError for an empty part."""
    chosen = experiment.preset(preset)
    for name in only.cases:
        experiment.case(name)
    _refuse_bad_claims(experiment, only)
    if only.rounds is not None and not FEWEST_OF_A_MEAN <= only.rounds <= MOST_ROUNDS:
        raise LabError(
            f"--runs is {only.rounds}",
            f"a number from {FEWEST_OF_A_MEAN} to {MOST_ROUNDS} (one round has no spread)",
            f"./lab run {experiment.name} --runs {chosen.max_rounds}",
        )
    most = only.rounds or chosen.max_rounds
    needed = [case for claim in experiment.claims if claim.id in only.claims for case in claim.relation.cases]
    asked = [twin for name in only.cases or needed for twin in twins_of(experiment, name)]
    smaller = replace(
        chosen,
        min_rounds=min(chosen.min_rounds, most),
        max_rounds=most,
        # In the experiment's order; those of the preset if no option names any.
        cases=tuple(case.name for case in experiment.cases if case.name in asked) if asked else chosen.cases,
        # A claim that the user names gets rounds even if the preset lists it as undecidable.
        undecidable={
            name: why for name, why in chosen.undecidable.items() if name.rpartition(":")[2] not in only.claims
        },
    )
    _refuse_no_comparison(experiment, smaller)
    return replace(experiment, only=only, presets={**experiment.presets, preset: smaller})


def _refuse_no_comparison(experiment: Experiment[Lab], preset: Preset) -> None:
    """Refuse --against for cases that have no figure by which servers are compared."""
    measured = {case.name for case in experiment.chosen(preset)}
    comparisons = [claim for claim in experiment.claims if claim.compares]
    if experiment.against and not any(set(claim.relation.cases) <= measured for claim in comparisons):
        raise LabError(
            f"--against {experiment.against.name}: no chosen case of {experiment.name} has a compared figure",
            "at least one case whose throughput, or another figure, can be compared",
            f"./lab run {experiment.name}{experiment.against.options}",
        )


def _refuse_bad_claims(experiment: Experiment[Lab], only: Only) -> None:
    known = {claim.id: claim for claim in experiment.claims}
    for name in only.claims:
        if name not in known:
            raise unknown_name(f"claim of experiment {experiment.name}", name, known)
        if why := experiment.not_compared(known[name], ""):
            raise LabError(
                f"--claim {name} would not be judged: {why.reason}",
                "a claim that is a law, or the published conditions",
                f"./lab run {experiment.name} --claim {name}",
            )
        asked = [twin for case in only.cases for twin in twins_of(experiment, case)]
        if missing := [case for case in known[name].relation.cases if asked and case not in asked]:
            raise LabError(
                f"--claim {name} needs the case {missing[0]}, which no --case names",
                "every case that the claim needs, or no --case",
                f"./lab run {experiment.name} --claim {name}",
            )


def refuse_bad_settings(
    experiment: Experiment[Lab], preset: str, settings: Values, cnf: Sequence[GivenFile] = ()
) -> None:
    """Raise LabError for settings that the cases of a preset cannot have."""
    cases = experiment.chosen(experiment.preset(preset))
    topologies = [
        catalogue.topology(name) for name in dict.fromkeys(experiment.lab_of(case).topology for case in cases)
    ]
    refuse_bad_files({name: [value] for name, value in settings.items()}, cnf)
    for name, value in settings.items():
        asked = setting(name)
        if asked.is_of_case:
            raise LabError(
                f"--set {name}={value}: {name} is not a server variable",
                f"a server variable, because the cases of {experiment.name} set {name} themselves",
                f"./lab run {experiment.name} --set sync_binlog=1",
            )
        if asked.is_variable:
            refuse_bad_setting(name, [value])
        for topology in topologies:
            refuse_a_file_for_machines(asked, topology)
            nodes = nodes_with_servers(topology)
            if asked.node and asked.node not in nodes:
                raise unknown_name(f"node with a server of {topology.name}", asked.node, nodes, "./lab list topologies")


def changed(
    experiment: Experiment[Lab], settings: Values, cnf: Sequence[GivenFile], against: Against | None
) -> Experiment[Lab]:
    """Return the experiment with these settings in every case, and with what it is compared with."""
    found = _with_settings(experiment, settings, cnf) if settings else experiment
    return compared(found, against) if against else found


def _with_settings(experiment: Experiment[Lab], settings: Values, cnf: Sequence[GivenFile]) -> Experiment[Lab]:
    servers = server_options(settings, cnf)
    disks = {name: value for name, value in settings.items() if setting(name).is_of_disks}
    cases = tuple(
        replace(
            case,
            state=replace(case.state, servers=servers),
            lab=_on_disks(experiment, case, disks) if disks else case.lab,
        )
        for case in experiment.cases
    )
    arrange = with_servers(experiment.arrange)
    return replace(
        experiment.with_conditions(settings),
        cnf=tuple(cnf),
        cases=cases,
        prepare=partial(_prepare, experiment, servers),
        arrange=on_disks(arrange) if disks else arrange,
    )


def _prepare(experiment: Experiment[Lab], servers: ServerOptions, lab: Lab) -> None:
    """Refuse, before the first round, a variable that a server rejects; then prepare as the experiment does.

    Restarts for variables that need one come first, because they would undo the experiment's own settings.
    """
    with server_settings(lab, servers):
        pass
    if experiment.prepare:
        experiment.prepare(lab)


def _on_disks(experiment: Experiment[Lab], case: Case, disks: Values) -> LabSpec:
    lab = experiment.lab_of(case)
    topology = catalogue.topology(lab.topology)
    if lab.storage is not None or topology.storage:
        name, value = next(iter(disks.items()))
        raise LabError(
            f"{name} is {value}, but the case {case.name} of {experiment.name} has its own disks",
            "an experiment without emulated disks",
            f"./lab ask {lab.topology} --set {name}={value}",
        )
    return replace(lab, storage=storage_of(disks, {}, topology))


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
    found = []
    for case in experiment.cases:
        told = (judged or {}).get(case.name, case.about or case.name)
        for figure in experiment.compared_of(case):
            known, compared = FIGURES[figure], ratio(case.name, figure)
            allowed = f"at least {1 - asked.margin:.0%}" if known.more_is_better else f"at most {1 + asked.margin:.0%}"
            found.append(
                Claim(
                    f"against:{asked.reference}:{case.name}{'' if figure == THROUGHPUT else f':{figure}'}",
                    f"{told}: {allowed} of the {known.words} {whose} in the same rounds",
                    compared >= 1 - asked.margin if known.more_is_better else compared <= 1 + asked.margin,
                    compares=True,
                )
            )
    return tuple(found)


def _with_twins(experiment: Experiment[Lab], asked: Against) -> Experiment[Lab]:
    """Return the experiment with each case twice: the second one on a lab with the file, or of the commit."""
    if experiment.conditions.keys() - {"rtt"}:
        raise LabError(
            f"--against {asked.name} with --set, --cnf, --storage or --disk",
            "one comparison: with --against, or with the other options",
            f"./lab run {experiment.name} --against {asked.name}",
        )
    twins = {case.name: _twin(experiment, case, asked) for case in experiment.cases}
    judged = {case: twin.about for case, twin in twins.items()} if asked.cnf else {}
    whose = "without it" if asked.cnf else f"with {asked.name}"

    def ratio(case: str, figure: str) -> Ratio:
        """Return the judged ratio: a file is judged against the servers without it, the lab against another commit."""
        own, other = Figure(case, figure), Figure(twins[case].name, figure)
        return other / own if asked.cnf else own / other

    presets = {
        name: replace(preset, cases=tuple(each for case in preset.cases for each in (case, twins[case].name)))
        for name, preset in experiment.presets.items()
    }
    return replace(
        experiment,
        cases=(*experiment.cases, *twins.values()),
        claims=(*experiment.claims, *_claims(experiment, asked, ratio, whose, judged)),
        presets=presets,
        arrange=_with_files(experiment.arrange),
        against=asked,
    )


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


def _with_files(arrange: Arrange[Lab]) -> Arrange[Lab]:
    """Return the arrangement of a case that also proves, over the load, the options of the file of its lab."""

    @contextmanager
    def arranged(lab: Lab, case: Case) -> Iterator[Watch]:
        file = case.lab.cnf if case.lab else None
        with arrange(lab, case) as watch:
            options = start_options.on_every_node(lab, file) if file else {}
            yield AlsoProves(watch, lambda: start_options.proofs(lab, options))

    return arranged
