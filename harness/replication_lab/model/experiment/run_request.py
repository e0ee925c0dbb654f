"""The request to run an experiment."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from replication_lab.model.core.noise import WAIT
from replication_lab.model.experiment.case import LabSpec
from replication_lab.model.experiment.experiment import Experiment, Preset
from replication_lab.model.lab.spread_load import SpreadLoad
from replication_lab.model.question.setting import RTT


@dataclass(frozen=True)
class RunRequest:
    """An experiment to be run with one of its presets, by its name. Without `engines` it runs on its default engines.

    `noise` is one of model.noise.NOISE: what to do while the machine is busy with other work. With `keep` the labs of
    the engines that do not come out as expected stay up, and the run ends there. `sites` are the endpoints of the
    Docker engines that its rounds are shared among, empty for the command's own. `spread` are the containers that run
    the clients of its loads, in place of the one beside the nodes.
    """

    experiment: Experiment[Any]
    engines: Sequence[str]
    preset: str
    seed: int
    noise: str = WAIT
    keep: bool = False
    sites: tuple[str, ...] = ("",)
    spread: SpreadLoad | None = None

    @cached_property
    def extent(self) -> Preset:
        """The preset of that name."""
        return self.experiment.preset(self.preset)

    @cached_property
    def servers(self) -> list[str]:
        """The engines to measure, each once; first the one that is compared with."""
        against = [self.experiment.against.server] if self.experiment.against else []
        named = filter(None, [*against, *(self.engines or self.experiment.default_engines)])
        return list(dict.fromkeys(named))

    @cached_property
    def parts(self) -> list[dict[str, tuple[LabSpec, ...]]]:
        """The labs of each engine, in groups of engines whose labs run at the same time."""
        groups = self.experiment.together(self.servers)
        return [{engine: self._labs(engine) for engine in group} for group in groups]

    def _labs(self, engine: str) -> tuple[LabSpec, ...]:
        """Return an engine's labs, each at every site."""
        labs = self.experiment.labs(self.extent, engine)
        return tuple(spec.on(engine, site) for site in self.sites for spec in labs)

    @property
    def command(self) -> str:
        """The command that asks for the same, without `lab` and without engines."""
        experiment = self.experiment
        if experiment.asked:
            said = f"ask {','.join(experiment.asked.topologies)}"
        else:
            said = f"run {experiment.name}" + ("" if self.preset == "quick" else f" --preset {self.preset}")
        for name, value in experiment.conditions.items():
            said += f" --{name} {value}" if name == RTT else f" --set {name}={value}"
        return said + experiment.only.options + (experiment.against.options if experiment.against else "")
