"""The drills of a user's question: each case's drill, run several times under the conditions of the case."""

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from replication_lab import replication
from replication_lab.faults.link_proof import prove_link
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.progress import Tell
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.drill import Drill, Waiting, setting_of
from replication_lab.model.drill.drill_result import CaseDrilled
from replication_lab.model.drill.evidence import Evidence
from replication_lab.model.experiment.case import Case, LabSpec
from replication_lab.model.experiment.experiment import Experiment
from replication_lab.model.experiment.measuring import ProofsOfNodes
from replication_lab.model.lab.toxic import Toxic
from replication_lab.model.question.question import Question
from replication_lab.model.record.record import Record
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.runner import drill_set
from replication_lab.runner.drill import DrillRequest, run_drill
from replication_lab.world import catalogue, clock, signals
from replication_lab.world.docker.lab import Lab
from replication_lab.world.files import private_folder
from replication_lab.world.journal import ledger
from replication_lab.world.mysql.semisync import SemiSync

BARE = "lan"


# --- which drill ------------------------------------------------------------------------------------------------------


def answers(topology: str) -> dict[str, str]:
    """Return the drills of a topology by the names that `lab ask` accepts: their own, and the key `answers`."""
    found = {name: drill_set.load(topology, name) for name in catalogue.drills(topology)}
    return {
        **{name: name for name, each in found.items() if each.steps},
        **{each.answers: name for name, each in found.items() if each.answers},
    }


@dataclass(frozen=True)
class Planned:
    """One of the `runs` drills of a case; `number` counts the cases, `run` its drills, both from 1."""

    case: Case
    number: int
    run: int
    runs: int
    drill: Drill

    @property
    def folder(self) -> str:
        return f"drill-{self.number}.{self.run}"


def planned(experiment: Experiment[Lab], engine: str) -> list[Planned]:
    """Return the drills of a question on an engine, alternating between cases; raise LabError for an impossible one."""
    question = experiment.asked
    if question is None or not question.drill:
        return []
    chosen = {
        number: (case, _of_case(question, case, experiment.lab_of(case)))
        for number, case in enumerate(experiment.cases, 1)
        if experiment.lab_of(case).engine in ("", engine)
    }
    return [
        Planned(case, number, run, question.drills_of_a_case, drill)
        for run in range(1, question.drills_of_a_case + 1)
        for number, (case, drill) in chosen.items()
    ]


def _of_case(question: Question, case: Case, spec: LabSpec) -> Drill:
    """Return the drill of a case, with the case's number of clients, its wait point, its endpoint and its manager."""
    topology = spec.topology
    drill = _named(question, topology)
    state, found = case.state, catalogue.topology(topology)
    if state.replication != found.replication:
        raise LabError(
            f"case {case.name} sets replication={state.replication} on {topology}, where no drill can be run",
            f"replication={found.replication} for {topology}, or a topology with replication={state.replication}",
            f"./lab ask async,semisync --drill {question.drill}",
        )
    if both := {name for _, name in state.servers.variables} & {setting_of(each)[1] for each in drill.settings}:
        raise LabError(f"drill {drill.name} of {topology} sets {', '.join(sorted(both))} itself", "other settings")
    semisync = drill.semisync
    if drill.engine:
        raise LabError(
            f"drill {drill.name} of {topology} starts with {drill.engine}, whatever a question varies",
            "a drill that starts with any engine",
            f"./lab drill {topology} --drill {drill.name}",
        )
    if question.ledger and drill.hot_row:
        raise LabError(
            f"drill {drill.name} of {topology} has transactions of its own", "another drill", "leave out --ledger"
        )
    if point := state.wait_point:
        if semisync and semisync.wait_point not in (None, point):
            raise LabError(
                f"drill {drill.name} of {topology} sets the wait point {semisync.wait_point} itself, "
                f"and case {case.name} asks for {point}",
                f"--set wait_point={semisync.wait_point}, or the drill lose-source, which has no wait point of its own",
                "--drill lose-source",
            )
        semisync = msgspec.structs.replace(semisync or Waiting(), wait_point=point)
    writer = drill.initial_primary or found.source.name
    clients = {**drill.clients, **({writer: state.clients} if writer in drill.clients else {})}
    drill = msgspec.structs.replace(drill, clients=clients, semisync=semisync)
    if state.protocol:
        net = [*drill.options.get("net", []), f"--protocol={state.protocol}"]
        drill = msgspec.structs.replace(drill, options={**drill.options, "net": net})
    if spec.endpoint:
        drill = drill.at_endpoint(spec.endpoint.name, dict(spec.endpoint.settings))
    if spec.manager:
        nodes = [node.name for node in found.nodes]
        drill = drill.under_manager(spec.manager.name, dict(spec.manager.settings), nodes)
    return drill


def _named(question: Question, topology: str) -> Drill:
    known = answers(topology)
    if question.drill in known:
        return drill_set.load(topology, known[question.drill])
    if question.drill in catalogue.drills(topology):
        raise LabError(
            f"drill {question.drill} of {topology} injects no fault: it only measures its own load, "
            "and a question has another load",
            f"a drill with a fault: {', '.join(sorted(known)) or 'there is none'}",
            f"./lab drill {topology} --drill {question.drill}",
        )
    able = [each for each in catalogue.topologies() if question.drill in answers(each)]
    common = set.intersection(*(set(answers(each)) for each in question.topologies))
    raise LabError(
        f"{topology} has no drill {question.drill}",
        f"a topology that has it: {', '.join(able)}"
        if able
        else f"a drill that each topology of the question has: {', '.join(sorted(common)) or 'there is none'}",
        "./lab drill",
    )


# --- the conditions of a case -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    """The conditions of a case on a lab; a call returns their proofs on the given nodes."""

    lab: Lab
    drill: Drill
    toxics: Mapping[str, Toxic]
    variables: ProofsOfNodes

    def proofs(self, nodes: Collection[str]) -> list[Proof]:
        return [*map(self._has, self.toxics), *self.variables(nodes), *self._waits(nodes)]

    def _has(self, link: str) -> Proof:
        with closing(RoundTrip(self.lab.link(link))) as probe:
            return prove_link(probe, self.toxics[link], in_use=True)

    def _waits(self, nodes: Collection[str]) -> list[Proof]:
        """Prove that a semi-synchronous source waits at the requested wait point."""
        source = self.lab.topology.source.name
        if not replication.kind_of(self.lab.topology).acknowledges or source not in nodes:
            return []
        found = SemiSync(self.lab.node(source).server()).status()
        asked = self.drill.semisync.wait_point if self.drill.semisync else None
        point = found.wait_point or "AFTER_COMMIT"
        return [
            Proof(
                what="commits wait for a replica",
                expected=f"semi-sync ON at {asked or point}",
                found=f"semi-sync {'ON' if found.active else 'OFF'} at {point}",
                ok=found.active and asked in (None, point),
            )
        ]


# --- run --------------------------------------------------------------------------------------------------------------


def done(experiment: Experiment[Lab], engine: str, what: Planned, seed: int, folder: Path, tell: Tell) -> Evidence:
    """Run one drill on a dedicated lab; return its evidence. A lab that does not start gives a doubt, not an error."""
    own = private_folder(folder / what.folder)
    file = ledger(own, what.drill.name)
    try:
        question = experiment.asked
        spec = experiment.lab_of(what.case)
        wanted = drill_set.lab_request(spec.topology, engine, [what.drill])
        toxics = {link.name: what.case.toxics.get(link.name) or catalogue.toxic(BARE) for link in wanted.topology.links}
        names = {link: toxic.name for link, toxic in toxics.items()}
        with drill_set.Labs(replace(wanted, toxics=names, storage=dict(spec.storage or ())), tell) as labs:
            lab = labs.lab(what.drill)
            conditions = Held(lab, what.drill, toxics, experiment.hold(lab, what.case)).proofs
            transactions = question.transactions if question and question.ledger else []
            asked = DrillRequest(what.drill, seed + what.run - 1, conditions, transactions)
            found = run_drill(lab, asked, file, tell)
    except LabError as error:
        signals.raise_interruption(error)
        tell(f"  {error.found}")
        found = Evidence(drill=what.drill, at=clock.now(), doubts=[error.found])
    placed = {"engine": engine, "case": what.case.name, "run": what.run, "ledger": str(file.relative_to(folder))}
    return msgspec.structs.replace(found, **placed)


# --- what was recorded ------------------------------------------------------------------------------------------------


def with_results(folder: Path, record: Record) -> Record:
    """Return the record with the result of each of its drills, judged from the evidence and the ledger beside it."""
    for each in record.events:
        if isinstance(each, Evidence) and each.case:
            result = drill_set.judged_as_found(each, folder / each.ledger)
            record = record.plus(CaseDrilled(engine=each.engine, case=each.case, run=each.run, result=result))
    return record
