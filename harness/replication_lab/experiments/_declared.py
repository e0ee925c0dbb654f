"""An experiment as its file declares it; what the file does not say has a default."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from replication_lab.experiments import DECLARED
from replication_lab.experiments._far import PUBLISHED, Far, far
from replication_lab.experiments.question.experiment import arrange as arrange_case
from replication_lab.experiments.question.experiment import needs_of, settle, state_of
from replication_lab.experiments.question.topologies import (
    nodes_with_servers,
    refuse_missing_setting,
    refuse_slow_replicas,
    refuse_what_a_case_cannot,
)
from replication_lab.experiments.question.variables import server_settings
from replication_lab.faults.condition import LinkCondition
from replication_lab.faults.fault import injected
from replication_lab.lab import start_options
from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.experiment import stated
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.experiment import Experiment, Preset
from replication_lab.model.experiment.measuring import AlsoProves, Watch, Workload
from replication_lab.model.experiment.published import Data, Words, parse_data
from replication_lab.model.lab.topology import Topology
from replication_lab.model.lab.toxic import Toxic
from replication_lab.model.question.setting import CHOICES, CLIENTS, setting
from replication_lab.model.question.validation import refuse_bad_setting
from replication_lab.world import catalogue
from replication_lab.world.docker.lab import Lab

# What a case may set besides variables of the servers.
SETTINGS = (CLIENTS, *CHOICES)
Load = Workload[Lab] | Callable[[Case, Preset], Workload[Lab]]
# A number that is read on a lab after each load.
Probe = Callable[[Lab], float]


def experiment(  # noqa: PLR0913 - each is a part of an experiment
    *,
    topology: str,
    load: Load,
    cases: Sequence[Case] = (),
    claims: Sequence[Claim] = (),
    probes: Sequence[Probe] = (),
    presets: Sequence[Preset] = (),
    at: Callable[[Far], dict[str, Any]] | None = None,
    words: Words | None = None,
    **further: Any,
) -> Experiment[Lab]:
    """Declare the experiment of the file that calls this: the file's name is its name, its docstring the question.

    Each case is arranged as `lab ask` does: its links have the condition that it names, its settings are set on the
    servers, and its replication is proved over each load. `load` is what clients do: an object with `run(lab, seed)`,
    of which each case has its own number of clients; or a function that returns it, given a case and a preset. Each of
    `probes` reads a number on the lab after each load, which is recorded under the probe's name. Claims without an ID
    are claim-1, claim-2 and so on. Those that the YAML file beside it states follow; `words` are what their texts and
    numbers name. The presets are those of `presets` and of that file; if neither has any, quick and full.

    `further` are other fields of Experiment. Its `engines` are by default all that the topology can have. With an
    `arrange` of its own the settings of cases may be any. `at` returns the parts that depend on how far away a site is,
    for an experiment that takes `--rtt`.
    """
    module = sys._getframe(1).f_globals
    if DECLARED in module:
        raise LabError("the file declares two experiments", "one experiment in a file")
    kind = catalogue.topology(topology)
    common: dict[str, Any] = {
        "name": Path(module["__file__"]).stem,
        "question": module["__doc__"] or "",
        "topology": topology,
        "cases": cases,
        "claims": claims,
        "presets": presets,
        "engines": tuple(catalogue.engines_for(kind)),
        "default_engines": (catalogue.default_engine(topology),),
        "workload": _loader(load),
        **further,
    }
    file = Path(module["__file__"]).with_suffix(".yaml")
    # With the citation of what they compare with.
    beside = parse_data(file.read_bytes(), file.stem).citing(catalogue.sources()) if file.is_file() else Data()

    def made(wan: Far, **data: Data) -> Experiment[Lab]:
        parts: dict[str, Any] = {"words": words or {}, **common, **(at(wan) if at else {}), **data}
        known = parts.pop("words")
        parts["cases"] = [*parts["cases"], *stated.cases(beside.cases, known)]
        parts["claims"] = [*parts["claims"], *stated.claims(beside.claims, known)]
        if "arrange" in parts:
            parts["cases"] = [replace(case, toxics=case.toxics or _conditions(case, kind)) for case in parts["cases"]]
        else:
            refuse_slow_replicas(kind)
            parts["cases"] = [_completed(case, kind, load) for case in parts["cases"]]
            parts["arrange"] = partial(_arrange, probes)
            parts.setdefault("prepare", partial(_prepare, parts["cases"], load))
        if at:
            parts |= {"rtt_ms": wan.ms, "at": lambda milliseconds: made(far(milliseconds))}
        numbered = enumerate(parts["claims"], 1)
        parts["claims"] = [each if each.id else replace(each, id=f"claim-{number}") for number, each in numbered]
        parts["claims"] = [_of_its_engine(each, parts["cases"]) for each in parts["claims"]]
        presets = [*parts["presets"], *_presets(stated.filled(beside.presets, known))]
        presets = presets or [Preset("quick"), Preset("full", max_rounds=12)]
        parts["presets"] = {preset.name: preset for preset in presets}
        return Experiment(**{**parts, "cases": tuple(parts["cases"]), "claims": tuple(parts["claims"])})

    # Only the published distance is compared with what is known.
    found = module[DECLARED] = made(PUBLISHED, data=beside.of_claims())
    return found


def _presets(beside: Mapping[str, Mapping[str, Any]]) -> Iterator[Preset]:
    """Yield the presets of a YAML file. Raise LabError for a key or a value that a preset cannot have."""
    known = {field.name for field in fields(Preset)} - {"name"}
    for name, parts in beside.items():
        if unknown := sorted(parts.keys() - known):
            raise unknown_name(f"key of preset {name}", unknown[0], known)
        try:
            yield msgspec.convert({"name": name, **parts}, Preset)
        except msgspec.ValidationError as error:
            raise LabError(f"preset {name}: {error}", "a preset as in docs/adding.md") from error


def _of_its_engine(claim: Claim, cases: Sequence[Case]) -> Claim:
    """Return a claim for the engine that all of its cases are measured on, if they have one of their own."""
    engines = {case.lab.engine if case.lab else "" for case in cases if case.name in claim.relation.cases}
    return replace(claim, engine=claim.engine or engines.pop()) if len(engines) == 1 else claim


# --- cases ------------------------------------------------------------------------------------------------------------


def _completed(case: Case, topology: Topology, load: Load) -> Case:
    """Return a case with the toxics and the state of the usual arrangement. Raise LabError for an impossible one."""
    topology = _topology_of(case, topology)
    asked = {name: str(value) for name, value in case.settings.items()}
    for each in map(setting, asked):
        if not each.is_variable and each.name not in SETTINGS:
            raise LabError(
                f"{each.name} is not a setting of a case, in case {case.name}",
                f"{', '.join(SETTINGS)} or a server's variable; a round trip is a condition of the links",
                'Case("far", links="85ms")',
            )
        refuse_bad_setting(each.name, [asked[each.name]])
        refuse_missing_setting(each, topology)
    refuse_what_a_case_cannot(asked, case.name, topology)
    asked.setdefault(CLIENTS, str(getattr(load, CLIENTS, 1)))
    state, conditions = state_of(asked, topology), _conditions(case, topology)
    if hasattr(load, "run"):
        _of_clients(cast("Workload[Lab]", load), state.clients)
    return replace(
        case,
        about=case.about or case.name,
        needs=case.needs | needs_of(state),
        toxics={link: toxic for link, toxic in conditions.items() if toxic.is_latency},
        state=state,
        settings={"conditions": {link: toxic for link, toxic in conditions.items() if not toxic.is_latency}},
    )


def _topology_of(case: Case, topology: Topology) -> Topology:
    return catalogue.topology(case.lab.topology) if case.lab else topology


def _conditions(case: Case, topology: Topology) -> dict[str, Toxic]:
    """Return the condition of each link. Raise LabError for a link or a condition that there is not."""
    if not case.links:
        return {}
    topology = _topology_of(case, topology)
    names = [link.name for link in topology.links]
    if not names:
        raise LabError(
            f"case {case.name} has the condition {case.links} on its links, and {topology.name} has no link",
            "a topology with links",
            "./lab list topologies",
        )
    given = dict.fromkeys(names, case.links) if isinstance(case.links, str) else dict(case.links)
    for link in given:
        topology.link(link)
    return {link: catalogue.toxic(name, f"condition of case {case.name}") for link, name in given.items()}


@contextmanager
def _arrange(probes: Sequence[Probe], lab: Lab, case: Case) -> Iterator[Watch]:
    """Arrange a case as `lab ask` does, and put the conditions on its links that round trips cannot prove."""
    with arrange_case(lab, case) as watch, ExitStack() as stack:
        acting = [
            stack.enter_context(injected(LinkCondition(lab, [link], toxic, calibrate=True)))
            for link, toxic in case.settings["conditions"].items()
        ]
        yield AlsoProves(
            watch,
            lambda: [proof for each in acting for proof in each.end()],
            # Without them the links are bare, as the watch proves.
            first=True,
            counted=lambda: {probe.__name__: probe(lab) for probe in probes},
        )


# --- the load ---------------------------------------------------------------------------------------------------------


def _loader(load: Load) -> Callable[[Case, Preset], Workload[Lab]]:
    if hasattr(load, "run"):
        return lambda case, _preset: _of_clients(cast("Workload[Lab]", load), case.state.clients)
    return load


def _of_clients(load: Workload[Lab], clients: int) -> Workload[Lab]:
    """Return the load with this number of clients. Raise LabError if it cannot have it."""
    if clients == getattr(load, "clients", 1):
        return load
    if not is_dataclass(load) or "clients" not in [field.name for field in fields(load)]:
        raise LabError(
            f"a case has {clients} clients, and the load {type(load).__name__} has no field `clients`",
            "a load with the field `clients`, or cases that do not set it",
        )
    return replace(load, clients=clients)


def _prepare(cases: Sequence[Case], load: Load, lab: Lab) -> None:
    # A lab that was started with a file keeps it.
    texts = {node: start_options.text_of(lab, node) for node in nodes_with_servers(lab.topology)}
    files = {node: GivenFile("", text) for node, text in texts.items() if text}
    for case in cases:
        with server_settings(lab, replace(case.state.servers, files={**files, **case.state.servers.files})):
            pass
    settle(lab)
    if hasattr(load, "prepare"):
        load.prepare(lab)
