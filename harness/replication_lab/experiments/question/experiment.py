"""Resolve a user's question into the experiment that answers it: typed cases, loads, tables, and the effects."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from replication_lab import replication
from replication_lab.experiments.question.disks import on_disks, storage_of
from replication_lab.experiments.question.topologies import refuse_what_a_topology_cannot, replication_of, round_trip_of
from replication_lab.experiments.question.variables import put, server_settings, with_servers
from replication_lab.lab import sql_files
from replication_lab.lab.endpoints import crossing, endpoint_of
from replication_lab.lab.managers import manager_of
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.experiment.case import Case, LabSpec
from replication_lab.model.experiment.claim import Claim, claims_of, is_about_lag
from replication_lab.model.experiment.drilled import KnownInDrills
from replication_lab.model.experiment.experiment import Experiment, Preset
from replication_lab.model.experiment.measuring import AlsoProves, ProofsOfNodes, Watch
from replication_lab.model.experiment.quantities import Figure, Quantity, Ratio, Total, p50, throughput
from replication_lab.model.experiment.relations import Bounds
from replication_lab.model.lab.companion import AskedCompanion, settings_apart
from replication_lab.model.lab.endpoint import ENDPOINT, NONE
from replication_lab.model.lab.manager import MANAGER
from replication_lab.model.lab.topology import Topology
from replication_lab.model.question.load import INSERTS, SYSBENCH, per_second
from replication_lab.model.question.question import NAME, Question
from replication_lab.model.question.registers import registers
from replication_lab.model.question.server_options import CaseState, server_options
from replication_lab.model.question.setting import CLIENTS, ENGINE, PROTOCOL, RATE, TOPOLOGY, Values, named
from replication_lab.model.question.sql_load import transactions
from replication_lab.model.question.sql_text import lines_of
from replication_lab.probes.round_trip import bare_links
from replication_lab.replication.source_replica import followed
from replication_lab.workloads import spread
from replication_lab.workloads.histories import ANOMALIES, CheckedTransactions
from replication_lab.workloads.inserts import TABLE, Inserted, Inserts
from replication_lab.workloads.own_command import OwnCommand
from replication_lab.workloads.timed_script import TimedScript, quoted, script_of
from replication_lab.world import catalogue, clock
from replication_lab.world.docker import servers
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.binary_log import BinaryLog

FEWEST_ROUNDS = 3
# In fewer transactions none is no finding.
FEWEST_CHECKED = 300
# The names of model/question/question.py's effects, in words and as figures.
KNOWN = {"throughput": ("throughput", throughput), "p50": ("{} p50", p50)}


def experiment_of(question: Question) -> Experiment[Lab]:
    """Return the experiment that answers a question. Raise LabError for one that its topology cannot answer."""
    topologies = {name: catalogue.topology(name) for name in question.topologies}
    claims = list(claims_of(question))
    with_lag = any(map(is_about_lag, claims))
    if with_lag and question.check:
        raise LabError(
            "--check and a claim about the lag, which is that of another load", "one of the two", "leave out --check"
        )
    for topology in topologies.values():
        refuse_what_a_topology_cannot(question, topology, with_lag)
    load, first = load_of(question), question.topologies[0]
    cases = [_case(values, question, topologies[values.get(TOPOLOGY, first)]) for values in question.combinations()]
    engines, sizes = tuple(dict.fromkeys(case.lab.engine for case in cases if case.lab)), {"seconds": question.seconds}
    return Experiment(
        name=NAME,
        question=_sentence(question),
        topology=first,
        cases=tuple(cases),
        claims=tuple(_on_its_engine(claim, cases) for claim in _claims(question, claims)),
        presets={NAME: Preset(NAME, FEWEST_ROUNDS, question.rounds, sizes, max_minutes=question.max_minutes)},
        engines=engines,
        default_engines=engines,
        side_by_side=True,
        watched=True,
        workload=partial(_workload, load, with_lag),
        prepare=partial(_prepare, question, load),
        arrange=on_disks(arrange),
        hold=partial(_hold, question),
        asked=question,
    )


def _sentence(question: Question) -> str:
    varied = " and ".join(f"{name} ({', '.join(values)})" for name, values in question.axes.items())
    where = f" on {question.topologies[0]}" if len(question.topologies) == 1 else ""
    fixed = f", with {named(question.settings)}" if question.settings else ""
    load = f", under the load {question.load_name}" if not question.makes_inserts else ""
    drill = f", and what is lost in the drill {question.drill}" if question.drill else ""
    return f"What does {varied} change{where}{fixed}{load}{drill}?"


def _case(values: Values, question: Question, topology: Topology) -> Case:
    """Return the case with these values: its toxics, servers and lab as objects, which no later step looks up again."""
    every = {**question.settings, **values}
    state, toxic = state_of(every, topology, question.cnf), round_trip_of(every)
    toxics = {link.name: toxic for link in topology.links if toxic}
    engine = values.get(ENGINE) or question.engine or catalogue.default_engine(topology.name)
    name = every.get(ENDPOINT, "")
    endpoint = None if name == NONE else endpoint_of(topology, name, settings_apart(every, ENDPOINT)[1])
    manager = _manager(every, question, topology, engine)
    lab = LabSpec(topology.name, engine, storage_of(every, question.vary, topology), endpoint=endpoint, manager=manager)
    return Case(named(values), named(values), needs=needs_of(state), lab=lab, toxics=toxics, state=state)


def _manager(values: Values, question: Question, topology: Topology, engine: str) -> AskedCompanion | None:
    """Return the manager of a case; where managers vary, each gets the settings that it has."""
    settings, name = settings_apart(values, MANAGER)[1], values.get(MANAGER, "")
    known = [catalogue.manager(each).settings for each in question.vary.get(MANAGER, ())]
    if name and known:
        others = {key for each in known for key in each} - catalogue.manager(name).settings.keys()
        settings = {key: value for key, value in settings.items() if key not in others}
    return manager_of(topology, engine, name, settings)


def state_of(values: Values, topology: Topology, cnf: Sequence[GivenFile] = ()) -> CaseState:
    """Return the state of a case with these settings; `cnf` are the files that they name."""
    return CaseState(
        replication_of(values, topology),
        int(values.get(CLIENTS, "1")),
        values.get("wait_point"),
        values.get(PROTOCOL),
        per_second(values[RATE]) if RATE in values else None,
        server_options(values, cnf),
    )


def needs_of(state: CaseState) -> frozenset[str]:
    return frozenset({"wait_point"}) if state.wait_point == "AFTER_SYNC" else frozenset()


def _claims(question: Question, claims: Sequence[Claim]) -> Iterator[Claim]:
    """Yield that each effect is known, then what the user claims."""
    for effect in question.effects():
        at = f", with {effect.common}," if effect.common else ""
        for name in effect.known:
            what, figure = KNOWN[name]
            yield Claim(
                effect.claim(name),
                f"the {what.format(question.counts)} with {effect.changed} as a share of that with {effect.replaced}"
                f"{at} is known within ±{question.margin:.0%}",
                (figure(effect.case) / figure(effect.baseline)).known(within=question.margin),
            )
    for values in question.combinations() if question.drill else ():
        # Each drill shows what is lost, and for how long there is no service.
        for name, what in (("lost", "the number of lost rows"), ("rto_s", "the time without service")):
            case = named(values)
            sentence = f"{what} in the drill {question.drill} with {case} is known"
            yield Claim(f"{name}:{case}", sentence, KnownInDrills(case, name, question.drills_of_a_case))
    for case in map(named, question.combinations() if question.check else ()):
        none = Total(case, ANOMALIES).is_zero("transactions", FEWEST_CHECKED)
        yield Claim(f"{ANOMALIES}:{case}", f"no transaction of {question.load_name} shows an anomaly with {case}", none)
    yield from claims


def _on_its_engine(claim: Claim, cases: Sequence[Case]) -> Claim:
    """Return the claim for different engines: judged once, on the engine of the first case that it reads."""
    engines = {case.name: case.lab.engine for case in cases if case.lab}
    if len(set(engines.values())) == 1:
        return claim
    own = engines[claim.relation.cases[0]]
    others = {case: engine for case, engine in engines.items() if engine != own}
    if not isinstance(claim.relation, Bounds):
        return replace(claim, engine=own)
    return replace(claim, engine=own, relation=replace(claim.relation, quantity=_read(claim.relation.quantity, others)))


def _read(quantity: Quantity, engines: Mapping[str, str]) -> Quantity:
    """Return the quantity with each case's figures read on the engine of that case."""
    if isinstance(quantity, Ratio):
        return Ratio(_read(quantity.numerator, engines), _read(quantity.denominator, engines))
    if isinstance(quantity, Figure) and quantity.case in engines:
        return replace(quantity, engine=engines[quantity.case])
    return quantity


# --- its lab ----------------------------------------------------------------------------------------------------------


@with_servers
@contextmanager
def arrange(lab: Lab, case: Case) -> Iterator[Watch]:
    """Set a case's servers and replication; yield the watch that proves them, and links without toxics, over a load."""
    is_bare, crossed = bool(lab.topology.links) and not case.toxics, crossing(lab, case.state.clients)
    with replication.of(lab).arranged(case) as watch:
        yield AlsoProves(watch, lambda: [*([bare_links(lab)] if is_bare else []), *crossed()])


def _hold(question: Question, lab: Lab, case: Case) -> ProofsOfNodes:
    """Set a case's variables on the lab of a drill, which is removed afterwards; return what proves them there.

    If the drill's clients run the user's transactions, make the tables of these first.
    """
    if question.ledger:
        make_tables(question, lab, replication.of(lab).written_at())
    return put(lab, case.state.servers).proofs


# --- the load ---------------------------------------------------------------------------------------------------------

Load = Inserts | TimedScript | OwnCommand
AnyLoad = Load | CheckedTransactions
# That of the container load, built like every image of the lab.
OWN_IMAGE = "replication-lab/load"
ROWS = 10_000
# The published inserts at a rate.
PACED_INSERTS = f"""{script_of(transactions(GivenFile(INSERTS, "INSERT INTO foo (text) VALUES ('{text:8}');")))}
function prepare()
  sysbench.sql.driver():connect():query({quoted(TABLE)})
end
"""


def load_of(question: Question) -> AnyLoad:
    """Return the load for one client; a case has its own number of clients."""
    workload = question.workload
    if question.check:
        return CheckedTransactions(registers(question.transactions))
    if question.load_command is not None:
        # A case has its own rate; that it has one is enough to try whether the command obeys it.
        return OwnCommand(question.load_command, question.load_image or OWN_IMAGE, rate=float(question.is_paced))
    if workload == INSERTS:
        return TimedScript(PACED_INSERTS) if question.is_paced else Inserts()
    if isinstance(workload, GivenFile):
        if not workload.name.endswith(".sql"):
            given = tuple(f"--{name}={value}" for name, value in question.script_options.items())
            return TimedScript(workload.text, given, modules=workload.beside, defines=True)
        every = transactions(workload)
        return TimedScript(script_of(every), kinds=len(every))
    return TimedScript(
        f'require("{workload}")\nevent_writes = {str(SYSBENCH[workload]).lower()}\n',
        (
            "--tables=1",
            f"--table-size={ROWS}",
            "--rand-type=uniform",
            # A cluster's automatic numbers have gaps, and an update of a missing row would change nothing.
            f"--auto-inc={'on' if workload == 'oltp_insert' else 'off'}",
        ),
    )


def make_tables(question: Question, lab: Lab, writer: str) -> None:
    """Make the user's tables and rows alone, for clients that are not those of the load."""
    _run(lab, writer, question.schema)
    _run(lab, writer, question.init)


def _run(lab: Lab, node: str, file: GivenFile | None) -> None:
    if file:
        sql_files.run_lines(lab, node, lines_of(file))


@dataclass(frozen=True)
class WithLag:
    """A load that ends when each replica has applied everything; the additional time is its lag."""

    load: Load

    def run(self, lab: Lab, seed: int) -> Inserted:
        """Run the load; LabError also when a replica does not catch up."""
        found = self.load.run(lab, seed)
        ended = clock.timer()
        for replica, server in followed(lab):
            replica.wait_for(BinaryLog(server).position())
        return replace(found, lag_s=clock.timer() - ended)


def _workload(load: AnyLoad, with_lag: bool, case: Case, preset: Preset) -> AnyLoad | WithLag:
    rate: dict[str, Any] = {} if case.state.rate is None else {"rate": case.state.rate}
    sized = replace(load, clients=case.state.clients, seconds=preset.sizes["seconds"], **rate)
    return WithLag(sized) if with_lag and not isinstance(sized, CheckedTransactions) else sized


def _prepare(question: Question, load: AnyLoad, lab: Lab) -> None:
    """Pin CPUs as for two sites, make the tables, and refuse a setting or statement that a server does not take."""
    for values in question.trials():
        # A case that names its engine is tried on that one only.
        engine = values.get(ENGINE, "") if question.cases and ENGINE in question.cases[0] else ""
        if engine and servers.shown(lab.topology, engine) != lab.engine:
            continue
        with server_settings(lab, server_options(values, question.cnf)):
            pass
    settle(lab)
    source = lab.topology.source.name
    _run(lab, source, question.schema)
    load.prepare(lab)
    _run(lab, source, question.init)
    if not isinstance(load, Inserts):
        load.try_out(lab)


def settle(lab: Lab) -> None:
    """Bring a lab into the state of one that has run for a while; pin CPUs as for two sites."""
    replication.of(lab).settle()
    first, proxy = lab.topology.source.name, ["toxiproxy"] if lab.topology.links else []
    in_front = [lab.endpoint.service.name] if lab.endpoint else []
    lab.pin_cpus((first, *spread.beside(lab), *in_front), (*(node.name for node in lab.topology.replicas), *proxy))
