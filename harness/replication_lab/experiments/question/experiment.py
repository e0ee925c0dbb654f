"""The experiment that a user's question is: its cases, what each is arranged by, and the effects that answer it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from replication_lab import replication
from replication_lab.experiments.question.disks import lab_of, on_disks
from replication_lab.experiments.question.engines import engines_of, on_its_engine
from replication_lab.experiments.question.lag import WithLag, refuse_lag_without_replicas
from replication_lab.experiments.question.load import Load, load_of
from replication_lab.experiments.question.load import prepare as prepare_load
from replication_lab.experiments.question.overridden import refuse_overridden
from replication_lab.experiments.question.state import arrange, hold
from replication_lab.experiments.question.topologies import refuse_what_a_topology_cannot, replication_of
from replication_lab.experiments.question.variables import server_settings
from replication_lab.model.core.errors import LabError
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.drilled import KnownInDrills, WorstOfDrills
from replication_lab.model.experiment.experiment import Case, Experiment, Preset
from replication_lab.model.experiment.quantities import ErrorShare, Figure, latency_p50, throughput
from replication_lab.model.lab.topology import Topology
from replication_lab.model.question.asked_claim import ERRORS, LAG, OF_DRILLS, AskedClaim, asks_for, parse_claim
from replication_lab.model.question.disks import is_of_disks
from replication_lab.model.question.files import files_of, is_cnf
from replication_lab.model.question.question import (
    CLIENTS,
    NAME,
    OWN,
    PROTOCOL,
    RATE,
    RTT,
    TOPOLOGY,
    Effect,
    Question,
    Values,
    is_bare,
    named,
)
from replication_lab.model.question.rate import per_second
from replication_lab.world import catalogue
from replication_lab.world.docker.lab import Lab

FEWEST_ROUNDS = 3
# The names of model/question/question.py's effects, in words and as figures.
KNOWN = {"throughput": ("throughput", throughput), "p50": ("{} p50", latency_p50)}


def experiment_of(question: Question) -> Experiment[Lab]:
    """Return the experiment that answers a question. Raise LabError for one that its topology cannot answer."""
    topologies = {name: catalogue.topology(name) for name in question.topologies}
    for topology in topologies.values():
        refuse_what_a_topology_cannot(question, topology)
        refuse_overridden(question, topology)
    refuse_lag_without_replicas(question, topologies.values())
    effects = list(question.effects())
    load = load_of(question)
    return Experiment(
        name=NAME,
        question=_sentence(question),
        topology=question.topologies[0],
        cases=tuple(
            _case(values, question, topologies[values.get(TOPOLOGY, question.topologies[0])])
            for values in question.combinations()
        ),
        claims=tuple(on_its_engine(claim, question) for claim in _claims(question, effects)),
        presets={
            NAME: Preset(
                NAME,
                FEWEST_ROUNDS,
                question.rounds,
                {"seconds": question.seconds},
                max_minutes=question.max_minutes,
            )
        },
        engines=engines_of(question),
        default_engines=engines_of(question),
        side_by_side=True,
        watched=True,
        workload=partial(_workload, question, load),
        prepare=partial(_prepare, question, load),
        arrange=on_disks(arrange),
        hold=partial(hold, question),
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
    every = {**question.settings, **values}
    trip = every.get(RTT, "0")
    toxics = {} if is_bare(trip) else dict.fromkeys((link.name for link in topology.links), trip)
    for name in toxics.values():
        _refuse_what_is_no_round_trip(name)
    settings = {
        "clients": int(every.get(CLIENTS, "1")),
        "replication": replication_of(every, topology),
        "wait_point": every.get("wait_point"),
        "protocol": every.get(PROTOCOL),
        "toxics": toxics,
        "variables": _variables(every),
        "files": files_of(every, question.cnf),
    }
    if RATE in every:
        settings["rate"] = per_second(every[RATE])
    waits = frozenset({"wait_point"}) if settings["wait_point"] == "AFTER_SYNC" else frozenset()
    return Case(named(values), named(values), settings, waits, lab_of(values, question, topology))


def _variables(settings: Values) -> Values:
    return {
        name: value
        for name, value in settings.items()
        if name not in OWN and not is_cnf(name) and not is_of_disks(name)
    }


def _refuse_what_is_no_round_trip(name: str) -> None:
    toxic = catalogue.toxic(name)
    if not toxic.round_trip_ms:
        raise LabError(f"rtt is {name!r}, which sets no round trip", "a toxic with a latency", "./lab toxic")
    if not toxic.is_latency:
        raise LabError(
            f"rtt is {name!r}, which is more than a latency; round trips during the load cannot verify the rest",
            "a latency, with or without jitter or loss, such as 40ms, 40ms±5ms or 40ms+loss=2%",
            f"./lab up semisync --toxic source-replica={name}",
        )


def _claims(question: Question, effects: Sequence[Effect]) -> Iterator[Claim]:
    """Yield that each effect is known, then what the user claims."""
    for effect in effects:
        at = f", with {effect.common}," if effect.common else ""
        for name in effect.known:
            what, figure = KNOWN[name]
            yield Claim(
                effect.claim(name),
                f"the {what.format(question.counts)} with {effect.changed} as a share of that with {effect.replaced}"
                f"{at} is known within ±{question.margin:.0%}",
                figure(effect.case).over(figure(effect.baseline)).known(within=question.margin),
            )
    yield from _known_of_drills(question)
    for number, text in enumerate(question.claims, 1):
        for part, asked in enumerate(parse_claim(text, question), 1):
            name = f"claim-{number}.{part}"
            if asked.over[0] in OF_DRILLS.values():
                yield Claim(name, asked.sentence, _of_drills(question, asked))
                continue
            kind = ErrorShare if asked.over[0] == ERRORS else Figure
            over = kind(asked.over[1], asked.over[0])
            of = over.over(Figure(asked.under[1], asked.under[0])) if asked.under else over
            yield Claim(
                name,
                asked.sentence,
                of.at_least(asked.bound) if asked.at_least else of.at_most(asked.bound),
            )


def _known_of_drills(question: Question) -> Iterator[Claim]:
    """Yield that each drill shows what is lost, and for how long there is no service."""
    for values in question.combinations() if question.drill else ():
        for name, what in (("lost", "the number of lost rows"), ("rto_s", "the time without service")):
            case = named(values)
            sentence = f"{what} in the drill {question.drill} with {case} is known"
            yield Claim(f"{name}:{case}", sentence, KnownInDrills(case, name, question.drills_of_a_case))


def _of_drills(question: Question, asked: AskedClaim) -> KnownInDrills:
    low, high = (asked.bound, math.inf) if asked.at_least else (-math.inf, asked.bound)
    figure, case = asked.over
    return WorstOfDrills(case, figure, question.drills_of_a_case, low, high)


# --- the load ---------------------------------------------------------------------------------------------------------


def _workload(question: Question, load: Load, case: Case, preset: Preset) -> Load | WithLag:
    rate = {"rate": case.settings["rate"]} if "rate" in case.settings else {}
    sized = replace(load, clients=case.settings["clients"], seconds=preset.sizes["seconds"], **rate)
    return WithLag(sized) if asks_for(LAG, question) else sized


def _prepare(question: Question, load: Load, lab: Lab) -> None:
    """Pin CPUs as for two sites, make the tables, and refuse a setting or statement that a server does not take."""
    for settings in question.trials():
        with server_settings(lab, _variables(settings), files_of(settings, question.cnf)):
            pass
    replication.of(lab).settle()
    first, proxy = lab.topology.source.name, ["toxiproxy"] if lab.topology.links else []
    lab.pin_cpus((first, "load"), (*(node.name for node in lab.topology.replicas), *proxy))
    prepare_load(question, load, lab)
