"""The state that a case of a user's question asks for: set before a load, and proved after it."""

from collections.abc import Iterator
from contextlib import contextmanager

from replication_lab import replication
from replication_lab.experiments.question.load import make_tables
from replication_lab.experiments.question.variables import put, server_settings
from replication_lab.model.experiment.experiment import Case
from replication_lab.model.experiment.measuring import AlsoProves, ProofsOfNodes, Watch
from replication_lab.model.question.question import Question
from replication_lab.probes.bare_links import bare_links
from replication_lab.world.docker.lab import Lab


@contextmanager
def arrange(lab: Lab, case: Case) -> Iterator[Watch]:
    """Set a case's variables and its replication; yield the watch that proves both over the load."""
    settings = server_settings(lab, case.settings["variables"], case.settings["files"])
    with settings as kept, replication.of(lab).arranged(case.settings) as watch:
        is_bare = bool(lab.topology.links) and not case.settings["toxics"]
        yield AlsoProves(watch, lambda: [*kept.proofs(), *([bare_links(lab)] if is_bare else [])])


def hold(question: Question, lab: Lab, case: Case) -> ProofsOfNodes:
    """Set a case's variables on the lab of a drill, which is removed afterwards; return what proves them there.

    If the drill's clients run the user's transactions, make the tables of these first.
    """
    if question.ledger:
        make_tables(question, replication.of(lab).writer())
    return put(lab, case.settings["variables"], case.settings["files"]).proofs_of
