"""The names that the shell completes: each function lists those of one kind, `completed_by` passes them to click."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from replication_lab.model.core.errors import LabError
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


def labs() -> list[str]:
    """List the labs that are up."""
    return list(project.all_labs())


def engines() -> list[str]:
    """List the engines."""
    return sorted(catalogue.engines())


def toxics() -> list[str]:
    """List the toxics, and the word that removes them."""
    return [*catalogue.toxics(), "none"]


def nodes() -> list[str]:
    """List the nodes of all topologies."""
    return sorted({node.name for name in catalogue.topologies() for node in catalogue.topology(name).nodes})


def links() -> list[str]:
    """List the links of all topologies."""
    return sorted({link.name for name in catalogue.topologies() for link in catalogue.topology(name).links})


def drills() -> list[str]:
    """List the drills of all topologies."""
    return sorted({drill for topology in catalogue.topologies() for drill in catalogue.drills(topology)})


def runs() -> list[str]:
    """List the recorded runs, and `latest`, the name of the newest."""
    from replication_lab.world import journal  # only here: what reads records takes long to import

    return [journal.LATEST, *journal.names()]
