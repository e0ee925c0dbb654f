"""The names that the shell completes, one kind each, as click asks for them."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.topology import Topology
from replication_lab.world import catalogue
from replication_lab.world.docker import project

if TYPE_CHECKING:
    from replication_lab.model.experiment.experiment import Experiment


def completed_by(names: Callable[[], list[str]]) -> Callable[..., list[str]]:
    """Complete what is typed by one of these names."""
    return lambda _context, _parameter, typed: [name for name in names() if name.startswith(typed)]


def of_experiment(names: Callable[["Experiment"], Iterable[str]]) -> Callable[..., list[str]]:
    """Complete what is typed by the names that the experiment of the same command line has."""

    def completed(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        from replication_lab import experiments  # only here: they take a sixth of the time of `lab status`

        # click has not assigned the arguments to their names yet where an option still lacks its value.
        name = context.params["experiment"] or next(iter(context.args), "")
        try:
            found = experiments.load(name, context.params["rtt"])
        except LabError:
            return []
        return [each for each in names(found) if each.startswith(typed)]

    return completed


# Of the experiment that the command runs.
presets = of_experiment(lambda found: found.presets)
cases = of_experiment(lambda found: [case.name for case in found.cases])
claims = of_experiment(lambda found: [claim.id for claim in found.claims])


def _of_topologies(names: Callable[[Topology], Iterable[str]]) -> list[str]:
    """Return the names that topologies have, each once."""
    return sorted({name for topology in catalogue.topologies() for name in names(catalogue.topology(topology))})


def _runs() -> list[str]:
    from replication_lab.world import journal  # only here: what reads records takes long to import

    return [journal.LATEST, *journal.names()]


labs = completed_by(lambda: list(project.all_labs()))
engines = completed_by(lambda: sorted(catalogue.engines()))
topologies = completed_by(catalogue.topologies)
# With the word that removes them.
toxics = completed_by(lambda: [*catalogue.toxics(), "none"])
nodes = completed_by(lambda: _of_topologies(lambda found: [node.name for node in found.nodes]))
links = completed_by(lambda: _of_topologies(lambda found: [link.name for link in found.links]))
drills = completed_by(lambda: sorted({one for name in catalogue.topologies() for one in catalogue.drills(name)}))
# With the name of the newest.
runs = completed_by(_runs)
