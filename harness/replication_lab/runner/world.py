"""What a run needs of the world: labs that come up and go, readings of the machine, and what is refused before."""

import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from replication_lab import replication
from replication_lab.lab import managers, memory
from replication_lab.lab import up as labs
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.progress import Tell
from replication_lab.model.drill.evidence import Evidence, Looked
from replication_lab.model.experiment.case import LabSpec
from replication_lab.model.experiment.measuring import Workload
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.site import Site
from replication_lab.model.lab.spread_load import SpreadLoad
from replication_lab.model.lab.storage import Storage
from replication_lab.model.lab.topology import Topology
from replication_lab.model.lab.toxic import Toxic
from replication_lab.model.question.server_options import ServerOptions
from replication_lab.probes.cpu_speed import Speed, measured_speed
from replication_lab.probes.noise import NoiseMeter, wait_for_quiet
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.runner import asked_drills, described
from replication_lab.runner.watched import watching
from replication_lab.witnesses.witness import OBLIGATIONS, Witnesses, observing
from replication_lab.workloads import spread
from replication_lab.world import catalogue, clock, revisions, signals
from replication_lab.world.docker import beside_nodes, images, machine, option_check, project, reach, servers, sites
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker.lab import Lab
from replication_lab.world.packets import packet_ability

if TYPE_CHECKING:  # a run has a world
    from replication_lab.runner.rounds import Run


class World:
    """The part of the world that a run needs; the unit tests use tests.fakes.world in its place."""

    # What its witnesses prove of each measurement.
    obligations = OBLIGATIONS

    def __init__(self, load: SpreadLoad | None = None) -> None:
        """`load` are the containers that run the clients of loads, in place of the one beside the nodes."""
        self._load = load
        self._left_up: set[str] = set()

    def environment(self) -> dict[str, Any]:
        return described.environment()

    def now(self) -> str:
        return clock.now()

    def make_ready(
        self,
        together: Sequence[Sequence[LabSpec]],
        tell: Tell,
        command: str,
        toxics: Iterable[tuple[str, Toxic]] = (),
        files: Iterable[tuple[LabSpec, ServerOptions]] = (),
    ) -> None:
        """Refuse impossible labs and toxics before anything starts; an error suggests `command` with another engine.

        Each of `toxics` comes with its link, or with a node for all of the node's links. `files` are the options that
        cases set on their labs; the servers' own programs check the my.cnf files among them.

        The labs of each part of `together` run at the same time.
        """
        wanted = [(catalogue.topology(spec.topology), spec) for part in together for spec in part]
        for topology, spec in wanted:
            replication.refuse_unfit_servers(topology, spec.engine, command)
        docker_engine.ensure()
        of_load = self._load.endpoints if self._load else ()
        there = sorted({*(spec.site for _, spec in wanted), *of_load} - {""})
        sites.use(there)
        for site in there:
            sites.client(site)
        for topology, spec in wanted:
            _refuse_elsewhere(topology, spec)
        labs.tidy(tell)
        for topology, spec in wanted:
            servers.make_ready(topology, spec.engine)
        images.ensure(dict.fromkeys(name for _, spec in wanted for name in _images(spec)))
        packet_ability.refuse_unable(toxics, [topology for topology, _ in wanted])
        for spec, options in files:
            topology = catalogue.topology(spec.topology)
            nodes = [node.name for node in topology.nodes]
            option_check.check(topology, spec.engine, dict.fromkeys(nodes, spec.cnf) | dict(options.on(nodes).files))
        first = self.machines({spec.site for _, spec in wanted})
        for part in together:
            for machine_, specs in groupby(sorted(part, key=lambda spec: first[spec.site]), lambda s: first[s.site]):
                labs_ = [(catalogue.topology(spec.topology), spec.engine, _placed(spec)) for spec in specs]
                memory.check(labs_, machine_)

    @contextmanager
    def lab(self, spec: LabSpec) -> Iterator[Lab]:
        """Yield a dedicated lab for the run; remove it at the end in any case, unless `leave_up` was called for it."""
        name = f"run-{spec.topology.partition(revisions.SEPARATOR)[0]}-{secrets.token_hex(3)}"
        asked = _asked(spec, name)
        lab = project.start(replace(asked, spread=self._load, address=self._load.address) if self._load else asked)
        try:
            spread.refuse_unconnected(lab)
            managers.begin_quietly(lab)
            yield lab
        finally:
            if lab.name not in self._left_up:
                with signals.signals_held():
                    lab.down()

    def leave_up(self, lab: Lab, tell: Tell) -> str:
        """Let a lab stay up after its block; return the reason why the run ends."""
        self._left_up.add(lab.name)
        return labs.leave_up(lab, tell)

    def drill(self, run: "Run", engine: str, what: asked_drills.Planned) -> Evidence:
        """Run one drill of a question; return its evidence."""
        return asked_drills.done(run.experiment, engine, what, run.asked.seed, run.journal.folder, run.tell)

    def round_trip(self, lab: Lab, link: str) -> RoundTrip:
        return RoundTrip(lab.link(link))

    def watching(self, lab: Lab) -> AbstractContextManager[list[Looked]]:
        """Ask each node about once a second within the block; times are the clock's."""
        return watching(replication.of(lab), 0.0)

    def observing(self, lab: Lab, across: Collection[str]) -> AbstractContextManager[Witnesses]:
        """Observe the lab within the block with all witnesses; `across` names the links with a condition."""
        return observing(lab, across)

    def machines(self, sites: Collection[str]) -> dict[str, str]:
        """Return for each site the first one on the same machine; nothing is asked if only the command's engine is."""
        return reach.first_on_its_machine(sites) if any(sites) else {"": ""}

    def wait_for_quiet(self, own: Iterable[Lab], seconds: float, tell: Tell, site: str = "") -> bool:
        return wait_for_quiet(own, seconds, tell, site)

    def cpu_speed(self, site: str = "") -> AbstractContextManager[Speed]:
        """Measure the speed of the CPUs of the machine of a site's engine within the block."""
        return measured_speed(beside_nodes.on_machine(site))

    def doubts(self, workload: Workload[Lab], site: str = "") -> list[str]:
        """Return why what a load measures is not only the lab's: a load of the user's own runs in this process."""
        elsewhere = machine.facts_at(site).elsewhere
        if not elsewhere or type(workload).__module__.startswith("replication_lab."):
            return []
        return [f"{elsewhere}, and the load runs on this machine: the way there takes part of each commit's time"]

    def noise(self, own: Iterable[Lab], site: str = "") -> NoiseMeter:
        """Return a noise meter to which the run's labs on a site's machine are none of others: idle ones use CPU, too.

        `site` is empty for the machine of the command's engine.
        """
        return NoiseMeter(own, site=site)


def _storage(spec: LabSpec) -> dict[str, Storage]:
    return catalogue.topology(spec.topology).storage if spec.storage is None else dict(spec.storage)


def _refuse_elsewhere(topology: Topology, spec: LabSpec) -> None:
    """Raise LabError for a lab at another site that needs the command's own engine."""
    in_machines = replication.kind_of(topology).in_machines
    if spec.site and (in_machines or _placed(spec) or spec.endpoint or spec.manager):
        raise LabError(
            f"{spec.about}: this lab needs the command's own engine",
            "--sites for labs without emulated disks, virtual machines, endpoints and managers",
            "./lab run --help",
        )


def _asked(spec: LabSpec, name: str) -> LabRequest:
    found = catalogue.topology(spec.topology)
    at = dict.fromkeys([node.name for node in found.nodes], Site(spec.site)) if spec.site else {}
    return LabRequest(
        found,
        spec.engine,
        name,
        storage=_placed(spec),
        load=True,
        launcher=labs.launcher_of(found),
        endpoint=spec.endpoint,
        manager=spec.manager,
        sites=at,
    )


def _placed(spec: LabSpec) -> dict[str, Storage]:
    return labs.placed_on(_storage(spec), spec.engine)


def _images(spec: LabSpec) -> list[str]:
    topology = catalogue.topology(spec.topology)
    return labs.image_names(spec.engine, True, topology, _storage(spec), spec.endpoint, spec.manager)
