"""What the options of `lab run` change: settings of the servers, and which cases and claims there are."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from replication_lab.experiments._question_topologies import nodes_with_servers
from replication_lab.experiments._question_variables import Kept, server_settings
from replication_lab.model.against import Against
from replication_lab.model.claim import Claim
from replication_lab.model.errors import LabError, unknown_name
from replication_lab.model.experiment import Case, Experiment, Preset
from replication_lab.model.measuring import Watch
from replication_lab.model.only import Only
from replication_lab.model.proof import Proof
from replication_lab.model.quantities import Figure, throughput
from replication_lab.model.question import OWN, Values, on_which_node, refuse_bad_setting
from replication_lab.model.question_disks import is_of_disks
from replication_lab.model.question_files import is_cnf
from replication_lab.model.statistics import FEWEST_OF_A_MEAN
from replication_lab.world import catalogue
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
            f"--rounds is {only.rounds}",
            f"a number from {FEWEST_OF_A_MEAN}, since one round has no spread, to {MOST_ROUNDS}",
            f"./lab run {experiment.name} --rounds {chosen.max_rounds}",
        )
    most = only.rounds or chosen.max_rounds
    smaller = replace(
        chosen,
        min_rounds=min(chosen.min_rounds, most),
        max_rounds=most,
        cases=_cases(experiment, chosen, only),
        # A claim that the user names gets rounds even if the preset lists it as undecidable.
        undecidable={name: why for name, why in chosen.undecidable.items() if name not in only.claims},
    )
    return replace(experiment, only=only, presets={**experiment.presets, preset: smaller})


def _cases(experiment: Experiment[Lab], preset: Preset, only: Only) -> tuple[str, ...]:
    """Return the cases to measure, in the experiment's order; those of the preset if no option names any."""
    needed = [case for claim in experiment.claims if claim.id in only.claims for case in claim.relation.cases]
    asked = only.cases or needed
    return tuple(case.name for case in experiment.cases if case.name in asked) if asked else preset.cases


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
        if missing := [case for case in known[name].relation.cases if only.cases and case not in only.cases]:
            raise LabError(
                f"--claim {name} needs the case {missing[0]}, which no --case names",
                "every case that the claim needs, or no --case",
                f"./lab run {experiment.name} --claim {name}",
            )


def compared(experiment: Experiment[Lab], asked: Against) -> Experiment[Lab]:
    """Return the experiment that measures a server and another one in the same rounds, with a claim for each case.

    The experiment's own claims are judged for both. Raise LabError for an experiment that compares engines itself.
    """
    if experiment.side_by_side:
        raise LabError(
            f"--against {asked.server}: {experiment.name} compares engines already",
            "an experiment that measures one engine after another",
            f"./lab run {experiment.name} --engine {asked.server},{experiment.default_engines[-1]}",
        )
    if not 0 < asked.margin < 1:
        raise LabError(f"--margin is {asked.margin:.0%}", "more than 0 % and less than 100 %", "--margin 10%")
    claims = tuple(
        Claim(
            f"against:{case.name}",
            f"{case.about or case.name}: at least {1 - asked.margin:.0%} of the commits/s that {asked.server} does in "
            "the same rounds",
            throughput(case.name).over(Figure(case.name, "throughput", asked.server)).at_least(1 - asked.margin),
        )
        for case in experiment.cases
    )
    return replace(
        experiment,
        claims=(*experiment.claims, *claims),
        engines=tuple(dict.fromkeys([*experiment.engines, asked.server])),
        side_by_side=True,
        against=asked,
    )


def with_settings(experiment: Experiment[Lab], preset: str, settings: Values) -> Experiment[Lab]:
    """Return the experiment with these variables set in every case. Raise LabError for an impossible one."""
    cases = experiment.chosen(experiment.preset(preset))
    topologies = dict.fromkeys(experiment.lab_of(case).topology for case in cases)
    for name, value in settings.items():
        if name in OWN or is_cnf(name) or is_of_disks(name):
            raise LabError(
                f"--set {name}={value}: {name} is no variable of a server",
                f"a variable, since the cases of {experiment.name} have their own {name}",
                f"./lab run {experiment.name} --set sync_binlog=1",
            )
        refuse_bad_setting(name, [value])
        node, _ = on_which_node(name)
        for topology in topologies:
            nodes = nodes_with_servers(catalogue.topology(topology))
            if node and node not in nodes:
                raise unknown_name(f"node with a server of {topology}", node, nodes, "./lab list topologies")
    return as_recorded(experiment, settings, Only())


def as_recorded(
    experiment: Experiment[Lab], settings: Values, only: Only, against: Against | None = None
) -> Experiment[Lab]:
    """Return the experiment of a record: with its variables, its part, and the server that it is compared with."""
    found = replace(compared(experiment, against) if against else experiment, only=only)
    if not settings:
        return found
    acting = _Setting(experiment, settings)
    changed = found.with_variables(settings)
    return replace(changed, prepare=acting.prepare, arrange=acting.arrange)


@dataclass(frozen=True)
class _Setting:
    """An experiment in which the user's variables are set in every case."""

    experiment: Experiment[Lab]
    asked: Values

    def prepare(self, lab: Lab) -> None:
        """Refuse, before the first round, a variable that a server rejects; then prepare as the experiment does.

        Restarts for variables that need one come first, because they would undo the experiment's own settings.
        """
        with server_settings(lab, self.asked, {}):
            pass
        if self.experiment.prepare:
            self.experiment.prepare(lab)

    @contextmanager
    def arrange(self, lab: Lab, case: Case) -> Iterator[Watch]:
        with server_settings(lab, self.asked, {}) as kept, self.experiment.arrange(lab, case) as watch:
            yield _Watch(watch, kept)


@dataclass(frozen=True)
class _Watch:
    """A watch that also proves that each variable kept its value."""

    watch: Watch
    kept: Kept

    def figures(self) -> Mapping[str, float]:
        return self.watch.figures()

    def proofs(self, commits: int, fastest_ms: float | None = None) -> list[Proof]:
        return [*self.watch.proofs(commits, fastest_ms), *self.kept.proofs()]
