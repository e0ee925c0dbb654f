"""Drills by name, run one after another on labs of their own, recorded, and judged from the record."""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec

from replication_lab import faults, replication
from replication_lab.faults.condition import NONE
from replication_lab.lab import up
from replication_lab.lab.endpoints import endpoint_of
from replication_lab.lab.managers import manager_of, refuse_no_address
from replication_lab.model.core.errors import LabError, as_lab_error, refuse_unknown
from replication_lab.model.core.event import KEPT, End, Event
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.progress import Tell
from replication_lab.model.drill import drill, drill_result, history
from replication_lab.model.drill.drill import UPGRADE, Drill
from replication_lab.model.drill.drill_result import Result
from replication_lab.model.drill.evidence import DrillsOpening, Evidence
from replication_lab.model.drill.soak import is_round
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.manager import refuse_unable_manager
from replication_lab.model.lab.topology import Topology
from replication_lab.model.lab.toxic import Toxic
from replication_lab.model.record.record import Record
from replication_lab.replication.role_changes import SWITCHOVER
from replication_lab.runner import described
from replication_lab.runner.drill import DrillRequest, run_drill
from replication_lab.witnesses.witness import OBLIGATIONS
from replication_lab.world import catalogue, clock, given_texts, own, signals
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import servers
from replication_lab.world.docker.lab import Lab
from replication_lab.world.files import reading
from replication_lab.world.journal import Journal, ledger
from replication_lab.world.packets import packet_ability

TRIES = 3
SETTINGS = ("wsrep_sync_wait", "wsrep_retry_autocommit")


# --- which drills -----------------------------------------------------------------------------------------------------


def known() -> dict[str, list[Drill]]:
    """Return all drills, by topology."""
    found = {topology: catalogue.drills(topology) for topology in catalogue.topologies()}
    return {topology: [load(topology, name) for name in names] for topology, names in found.items() if names}


def load(topology: str, name: str) -> Drill:
    """Return a drill of a topology; LabError for an unknown name, or a file that does not fit."""
    catalogue.topology(topology)
    names = catalogue.drills(topology)
    if not names:
        able = [each for each in catalogue.topologies() if catalogue.drills(each)]
        raise LabError(f"{topology} has no drills", f"one of {', '.join(able)}", "./lab drill")
    refuse_unknown(f"drill of {topology}", name, names, "./lab drill")
    path = catalogue.drill_file(topology, name)
    with own.explained(path) as text:
        return _parsed(path.stem, topology, text, own.file_of(path))


@cache
def _parsed(name: str, topology: str, text: str, file: str) -> Drill:
    """Return the drill of a file, parsed once: a question looks through all drills of each topology."""
    return parse(name, catalogue.topology(topology), text, file)


def read(path: Path) -> Drill:
    """Return the drill of a user's file; LabError with its path and line for what does not fit."""
    text = given_texts.read(path).text
    with own.explained(path):
        return of_file(GivenFile(own.shown(path), text))


def of_file(file: GivenFile) -> Drill:
    """Return the drill of a user's file, whose key `topology` says where it is run; LabError for what does not fit."""
    with as_lab_error(
        msgspec.MsgspecError, f"{file.name}", "a drill with the key topology", "compare with docs/drills.md"
    ):
        topology = msgspec.yaml.decode(file.text, type=_OfFile).topology
    return parse(Path(file.name).stem, catalogue.topology(topology), file.text, file.name)


class _OfFile(msgspec.Struct):
    topology: str


@cache
def promises() -> drill.Promises:
    """Return the expectations that a drill can name, by name."""
    return msgspec.yaml.decode(catalogue.PROMISES.read_bytes(), type=dict[str, drill.Expectation])


def parse(name: str, topology: Topology, text: str | bytes, where: str = "") -> Drill:
    """Return the drill of a YAML text; LabError for what does not fit, or what the kind of replication cannot do."""
    where = where or drill.file_of(topology.name, name)
    found = drill.parse_drill(name, topology, text, faults.kinds(), where, known=promises())
    _refuse_unable(found, topology, where)
    # Clients across a link test that link.
    in_front = found.endpoint or ("" if found.through else topology.endpoint)
    found = _at_endpoint(found, in_front, {}) if in_front else found
    return _under_manager(found, found.manager, {}) if found.manager else found


def _refuse_unable(asked: Drill, topology: Topology, where: str) -> None:
    kind = replication.kind_of(topology)
    for engine in asked.engines:
        replication.refuse_unfit_servers(topology, engine, f"drill {topology.name}")
    if asked.initial_primary and not kind.elects:
        raise LabError(
            f"{where}: the key initial_primary needs a cluster manager",
            "a topology with Pacemaker, or a drill without this key",
            "./lab drill",
        )
    if asked.changes_roles and not kind.can_take_over():
        raise LabError(
            f"{where}: {topology.name} has no node that can be promoted",
            "source and replica, or two machines",
            "./lab drill",
        )
    if asked.options and not kind.options:
        raise LabError(
            f"{where} sets options of DRBD, which {topology.name} does not have",
            "a topology that replicates by DRBD",
            "./lab drill",
        )
    if asked.storage and kind.in_machines:
        raise LabError(f"{where}: the machines of {topology.name} have a disk already", "no key storage", "./lab drill")
    for each in asked.options:
        refuse_unknown(f"kind of options in {where}", each, kind.options, "./lab drill")


def chosen(topology: str, fault: str | None, seconds: float | None) -> list[Drill]:
    """Return the drill of that name, or all of a topology that start with any engine, with this duration if given."""
    refuse_no_time(seconds)
    catalogue.topology(topology)
    found = [load(topology, name) for name in ([fault] if fault else catalogue.drills(topology) or [""])]
    return [each.with_duration(seconds) for each in found if fault or not each.engine]


def at_endpoint(drills: Sequence[Drill], name: str, settings: Mapping[str, str]) -> list[Drill]:
    """Return the drills with all clients at an endpoint; they are unchanged if neither they nor the option name one."""
    return [_at_endpoint(each, name or each.endpoint, settings) if name or settings else each for each in drills]


def _at_endpoint(what: Drill, name: str, settings: Mapping[str, str | int]) -> Drill:
    """Return the drill at an endpoint with all of its settings; LabError for one that there is not."""
    asked = endpoint_of(catalogue.topology(what.topology), name, {**what.endpoint_settings, **settings})
    return what.at_endpoint(asked.name, dict(asked.settings)) if asked else what


def under_manager(drills: Sequence[Drill], name: str, settings: Mapping[str, str]) -> list[Drill]:
    """Return the drills under a failover manager; they are unchanged if neither they nor the option name one."""
    return [_under_manager(each, name or each.manager, settings) if name or settings else each for each in drills]


def _under_manager(what: Drill, name: str, settings: Mapping[str, str | int]) -> Drill:
    """Return the drill under a manager with all of its settings; LabError for one that does not exist or fit."""
    topology = catalogue.topology(what.topology)
    # Of another manager than the one in the drill's file, the settings there are no settings.
    own = what.manager_settings if name in ("", what.manager) else {}
    asked = manager_of(topology, "", name or what.manager, {**own, **settings})
    if asked is None:
        return what
    if any(step.stays for step in what.steps):
        said = f"drill {what.name} leaves its fault in place, which the manager {asked.name} may undo later"
        raise LabError(said, "a drill without recover: none", "./lab drill")
    if any(spec.fault == SWITCHOVER for spec in what.fault_specs):
        refuse_unable_manager(asked.name, catalogue.manager(asked.name))
    if planned := [spec for spec in what.fault_specs if spec.fault == UPGRADE]:
        said = f"drill {what.name} has {planned[0]}, which the lab does itself, under the manager {asked.name}"
        raise LabError(said, "a drill in which only the manager changes what its servers are", "./lab drill")
    return what.under_manager(asked.name, dict(asked.settings), [node.name for node in topology.nodes])


def refuse_no_time(seconds: float | None) -> None:
    if seconds is not None and seconds <= 0:
        raise LabError(f"the fault would last {seconds:g} s", "more than 0 seconds", "./lab drill --help")


# --- a run of drills --------------------------------------------------------------------------------------------------


def make_ready(topology: str, engine: str, drills: Sequence[Drill]) -> None:
    """Refuse impossible drills before anything starts, and prepare everything that containers need."""
    found = catalogue.topology(topology)
    replication.refuse_unfit_servers(found, engine, f"drill {topology}")
    for each in drills:
        manager = manager_of(found, engine, each.manager, each.manager_settings)
        refuse_no_address(endpoint_of(found, each.endpoint, each.endpoint_settings), manager)
    movers = [each.name for each in drills if each.moves_clocks(faults.kinds())]
    if movers and (others := servers.others_images(found, engine)):
        raise LabError(
            f"{', '.join(movers)} shifts a server's clock, which {', '.join(others)} does not support: "
            "only images with the lab's own entrypoint do",
            "an engine that is built here, or another drill",
            f"./lab drill {topology} --drill NAME",
        )
    docker_engine.ensure()
    for text in dict.fromkeys([engine, *(text for each in drills for text in each.engines)]):
        servers.make_ready(found, text)
    packet_ability.refuse_unable(toxics(drills), [found])


def toxics(drills: Iterable[Drill]) -> list[tuple[str, Toxic]]:
    """Return the toxics that faults of these drills put on links, each with the link, or a node for all of its."""
    return [
        (target, catalogue.toxic(str(spec.settings[key])))
        for each in drills
        for spec in each.fault_specs
        for key in ("toxic", "condition")
        if spec.settings.get(key, NONE) != NONE
        for target in spec.targets
    ]


def run(  # noqa: PLR0913 - what is run, where it is recorded, and when it ends
    asked: LabRequest,
    drills: Sequence[Drill],
    seed: int,
    *,
    journal: Journal,
    tell: Tell,
    keep: bool = False,
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """Run drills one after another on dedicated labs, which are removed at the end in any case.

    With `keep` the run ends at the first drill whose verdicts are not the expected ones, and its lab stays up. It also
    ends before the first drill for which `goes_on` returns False.
    """
    with journal.recording(opening(asked.topology.name, asked.engine, drills, seed)):
        with Labs(asked, tell, lambda lab: journal.write(_came_up(lab)), keep) as own:
            for each in drills:
                if own.left_up or not goes_on():
                    break
                own.do(DrillRequest(each, seed), ledger(journal.folder, each.name), journal.write)
        journal.write(End(why=KEPT if own.left_up else "done", reason=own.left_up))


def opening(topology: str, engine: str, drills: Sequence[Drill], seed: int) -> DrillsOpening:
    """Return the first event of the record; an attached project is its own topology."""
    return DrillsOpening(
        topology=topology,
        engines=[engine],
        drills=list(drills),
        seed=seed,
        started=clock.now(),
        environment=described.environment(),
        obligations=OBLIGATIONS,
    )


def lab_request(topology: str, engine: str, drills: Sequence[Drill]) -> LabRequest:
    """Return the request of a lab on which these drills can be done, with the engine that they name themselves."""
    engines = {each.engine for each in drills} or {""}
    if len(engines) > 1:
        raise LabError(
            f"{', '.join(each.name for each in drills)} start with different engines", "one of them", "./lab drill"
        )
    clocks_move = any(each.moves_clocks(faults.kinds()) for each in drills)
    wanted = (catalogue.topology(topology), engines.pop() or engine)
    return LabRequest(*wanted, f"drill-{topology}", keep=False, clocks_move=clocks_move)


class Labs:
    """The lab of a run, renewed after a drill that left it unusable; the last one is removed at the block's end.

    It is also renewed before a drill with another endpoint, another manager or other disks.

    With `keep` the lab of a failed drill, or of a drill in which the harness failed, stays up, and `left_up` names it.
    """

    def __init__(
        self,
        asked: LabRequest,
        tell: Tell,
        note: Callable[[Lab], None] = lambda _: None,
        keep: bool = False,
    ):
        """Set the request, whose name is the beginning of each lab's. `note` is called with each lab that comes up."""
        self._asked, self._tell, self._note, self._keep, self._storage = asked, tell, note, keep, asked.storage
        self.left_up = ""
        self._lab: Lab | None = None

    def lab(self, drill: Drill | None = None) -> Lab:
        """Return the lab, behind the endpoint and under the manager that a drill names."""
        if drill:
            in_front = endpoint_of(self._asked.topology, drill.endpoint, drill.endpoint_settings)
            manager = manager_of(self._asked.topology, self._asked.engine, drill.manager, drill.manager_settings)
            wanted = replace(self._asked, endpoint=in_front, manager=manager, storage=self._storage | drill.storages)
            if wanted != self._asked:
                self.renew()
                self._asked = wanted
        if self._lab is None:
            # A moment of load on the host can fail a link's proof. An impossible lab fails in each attempt.
            self._lab = clock.try_again(self._up, LabError, TRIES)
            self._note(self._lab)
        return self._lab

    def _up(self) -> Lab:
        asked = replace(self._asked, name=f"{self._asked.name}-{secrets.token_hex(3)}")
        try:
            return up.up(asked, self._tell)
        except LabError as error:
            # An interrupted start is not repeated, even if removing its lab failed.
            signals.raise_interruption(error)
            raise

    def do(self, asked: DrillRequest, ledger: Path, record: Callable[[Evidence], object] = lambda _: None) -> Evidence:
        """Run one drill on the lab, record it, and remove the lab if nothing can be proved on it afterwards.

        It is recorded first: an engine that is gone cannot remove the lab either.
        """
        evidence = run_drill(self.lab(asked.drill), asked, ledger, self._tell)
        record(evidence)
        if self._keep and judged_as_found(evidence, ledger).exit_code:
            self._leave_up()
        elif evidence.doubts or evidence.failed_proofs or evidence.unrecovered or asked.drill.changes_lab:
            self.renew()
        return evidence

    def renew(self) -> None:
        """Remove the lab; the next one starts when it is needed."""
        gone, self._lab = self._lab, None
        if gone is not None:
            with signals.signals_held():
                gone.down()

    def __enter__(self) -> "Labs":
        return self

    def _leave_up(self) -> None:
        left, self._lab = self._lab, None
        if left is not None:
            self.left_up = up.leave_up(left, self._tell)

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if self._keep and error and issubclass(error, Exception):
            self._leave_up()
        self.renew()


def _came_up(lab: Lab) -> Event:
    kind = replication.of(lab)
    disks = [disk.limits().costs() for disk in kind.disks(kind.names[0]).values()]
    return described.came_up(lab, kind.writer(), SETTINGS, ", ".join(disks))


# --- what was recorded ------------------------------------------------------------------------------------------------


def results(folder: Path, record: Record) -> list[Result]:
    """Return the result of each drill of the run, from the record and the ledgers beside it.

    The rounds of a soak that had not begun at its end are left out, but not all.
    """
    drills = record.drills.drills
    begun = [each for each in drills if each.name in record.evidence or not is_round(each.name)]
    return [result(folder, record, each) for each in begun or drills]


def result(folder: Path, record: Record, what: Drill) -> Result:
    """Return the result of one drill of the run."""
    evidence = record.evidence.get(what.name)
    if evidence is None:
        lacking = (
            (record.end.reason or "the record has no entry for this drill")
            if record.end
            else "the run was killed, or has not ended yet"
        )
        return drill_result.not_done(what, f"it was not run: {record.stopped or lacking}")
    doubts = [*evidence.doubts, *record.doubts(record.engines[0]), *evidence.unproved(record.drills.obligations)]
    evidence = msgspec.structs.replace(evidence, doubts=list(dict.fromkeys(doubts)))
    return judged_as_found(evidence, ledger(folder, what.name))


def judged_as_found(evidence: Evidence, ledger_file: Path) -> Result:
    """Return the result of a drill, even if its ledger is missing or damaged."""
    if not ledger_file.exists():
        return drill_result.judge(evidence, [])
    try:
        # Line by line: with many clients it is too large for memory.
        with reading(ledger_file) as lines:
            return drill_result.judge(evidence, *history.parse(lines))
    except LabError as error:
        return drill_result.not_done(evidence.drill, error.found)
