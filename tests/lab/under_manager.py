"""Labs and drills under a failover manager, for the tests of each."""

from contextlib import contextmanager

from replication_lab.lab import up
from replication_lab.lab.managers import manager_of
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.runner import drill_set
from replication_lab.runner.drill import DrillRequest
from replication_lab.world import catalogue, signals

from tests.conftest import ignoring_noise


@contextmanager
def lab_under(manager, topology, engine, **settings):
    """Yield a lab under a manager, which is removed at the end."""
    found = catalogue.topology(topology)
    asked = LabRequest(found, engine, f"{manager}-test", manager=manager_of(found, engine, manager, settings))
    lab = up.up(asked, print)
    try:
        yield lab
    finally:
        with signals.signals_held():
            lab.down()


def drilled(manager, name, tmp_path, engine, topology="semisync", endpoint="haproxy", seconds=None, **settings):
    """Do a drill under a manager, with clients at an endpoint, and faults of some `seconds`; return its result."""
    (drill,) = drill_set.at_endpoint([drill_set.load(topology, name).with_duration(seconds)], endpoint, {})
    (drill,) = drill_set.under_manager([drill], manager, {key: str(value) for key, value in settings.items()})
    with drill_set.Labs(drill_set.lab_request(topology, engine, [drill]), print) as own, ignoring_noise():
        evidence = own.do(DrillRequest(drill, 7), tmp_path / "ledger")
    # A drill that did not begin has no ledger.
    return drill_set.judged_as_found(evidence, tmp_path / "ledger")
