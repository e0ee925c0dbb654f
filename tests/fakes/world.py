"""A world without Docker, sockets or waiting: a small seeded model of a source, its replicas and the links between.

`FakeWorld` is to the unit tests what `runner.World` is to real servers; `clock.timer` has to be replaced by its clock.
The model knows what the experiments ask of a lab and nothing else, so it grows with them: a disk is a bound on how fast
`commit` may be called. A Galera node is a server whose commit waits for all of its links; of two nodes that change one
row at the same time the later one loses.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from replication_lab.model.core.noise import Noise
from replication_lab.model.core.observation import Observation
from replication_lab.model.drill.evidence import Evidence, Looked, View
from replication_lab.model.experiment.case import LabSpec
from replication_lab.model.lab.topology import Topology
from replication_lab.model.lab.toxic import Toxic
from replication_lab.model.question.server_options import ServerOptions
from replication_lab.probes.cpu_speed import Speed
from replication_lab.witnesses.witness import OBLIGATIONS, Witnesses
from replication_lab.world import catalogue

from tests.fakes import troubles
from tests.fakes.clock import FakeClock
from tests.fakes.lab import FakeLab
from tests.fakes.link import FakeRoundTrip


@dataclass(frozen=True)
class FakeNoise:
    """A noise meter: busy or not, as its world is told. A load begins where it is started anew."""

    world: "FakeWorld"
    labs: tuple[FakeLab, ...]

    def restart(self) -> None:
        self.world.loads += 1
        for lab in self.labs:
            lab.load_begins(self.world.loads)

    def read(self) -> Noise:
        if self.world.unreadable:
            return Noise(quiet=False, readable=False, why="the load of the machine cannot be read")
        if self.world.noisy(self.world.loads):
            return Noise(foreign_cpu=0.6, steal=0.0, quiet=False, why="other programs used 60% of the CPUs (limit 25%)")
        return Noise(foreign_cpu=0.02, steal=0.0)

    def close(self) -> None:
        """Nothing runs."""


def _topology(spec: LabSpec) -> Topology:
    """Return a lab's topology with the storage that the lab has."""
    found = catalogue.topology(spec.topology)
    return found if spec.storage is None else replace(found, storage=dict(spec.storage))


@dataclass(frozen=True)
class FakeWitness:
    """A witness that saw everything, and that nobody meddled with the lab."""

    obligation: str

    def observation(self, _zero: float) -> Observation:
        return Observation(self.obligation, begin=0.0, end=float("inf"))

    def close(self) -> None:
        """Nothing runs."""


def no_drill(*_: Any) -> Evidence:
    raise AssertionError("no drill was to be done")


@dataclass
class FakeWorld:
    """The methods of `runner.World`. `noisy`, `loop_us` and `meanwhile` get the number of the load, from 1."""

    seed: int = 1
    noisy: Callable[[int], bool] = lambda _load: False
    # Whether the load of its machine cannot be read.
    unreadable: bool = False
    # The CPU time of the loop that tells the speed of the CPUs.
    loop_us: Callable[[int], float] = lambda _load: 350.0
    meanwhile: troubles.Meanwhile = troubles.nothing
    # A commit that waits for no other node: slow, so that a second of load is few rows.
    commit_ms: float = 3.0
    obligations: list[str] = field(default_factory=lambda: list(OBLIGATIONS))
    # Does a drill of a question; arguments as of `runner.World.drill`.
    drill: Callable[..., Evidence] = no_drill
    clock: FakeClock = field(default_factory=FakeClock)
    loads: int = 0
    came_up: list[str] = field(default_factory=list)
    taken_down: list[str] = field(default_factory=list)
    left_up: list[str] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)

    def environment(self) -> dict[str, Any]:
        return {"kernel": "fake", "cpus": 2, "docker": "none"}

    def now(self) -> str:
        return "2030-01-01T12:00:00.000+00:00"

    def make_ready(
        self,
        together: Iterable[Iterable[LabSpec]],
        tell: Callable[[str], None],
        command: str,
        toxics: Iterable[tuple[str, Toxic]] = (),
        files: Iterable[tuple[LabSpec, ServerOptions]] = (),
    ) -> None:
        for spec in [spec for part in together for spec in part]:
            catalogue.engine_for(catalogue.topology(spec.topology), spec.engine, command=command)

    @contextmanager
    def lab(self, spec: LabSpec) -> Iterator[FakeLab]:
        self.came_up.append(spec.engine)
        try:
            yield FakeLab(self, _topology(spec), spec.engine)
        finally:
            if spec.engine not in self.left_up:
                self.taken_down.append(spec.engine)

    def leave_up(self, lab: FakeLab, tell: Callable[[str], None]) -> str:
        self.left_up.append(lab.engine)
        tell(f"{lab.name} stays up")
        return f"--keep left {lab.name} up"

    def round_trip(self, lab: FakeLab, link: str) -> FakeRoundTrip:
        return FakeRoundTrip(lab.link(link))

    def watching(self, lab: FakeLab) -> AbstractContextManager[list[Looked]]:
        now = self.clock.timer()
        return nullcontext([Looked(now, node.name, View("serving")) for node in lab.topology.nodes])

    def observing(self, _lab: FakeLab, _across: Collection[str]) -> AbstractContextManager[Witnesses]:
        return nullcontext(Witnesses([FakeWitness(each) for each in self.obligations]))

    def machines(self, sites: Collection[str]) -> dict[str, str]:
        # All its sites are on one machine.
        return dict.fromkeys(sites, "")

    def wait_for_quiet(
        self, own: Iterable[FakeLab], seconds: float, tell: Callable[[str], None], site: str = ""
    ) -> bool:
        self.waited.append(seconds)
        self.clock.pause(seconds)
        return False

    @contextmanager
    def cpu_speed(self, _site: str = "") -> Iterator[Speed]:
        found = Speed()
        yield found
        found.loop_us = self.loop_us(self.loads)

    def doubts(self, _workload: object, _site: str = "") -> list[str]:
        return []

    def noise(self, own: Iterable[FakeLab], _site: str = "") -> FakeNoise:
        return FakeNoise(self, tuple(own))
