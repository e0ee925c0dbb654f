"""States in which a message is printed, with nothing else of a lab."""

from itertools import count
from types import SimpleNamespace as Some

from replication_lab.world import catalogue, clock


def of(topology="semisync", **more):
    """Return a lab of a topology."""
    return Some(name="shop", topology=catalogue.topology(topology), **more)


def made(kind, **has):
    """Return an object of a class that has only this."""
    found = object.__new__(kind)
    found.__dict__.update(has)
    return found


def failing(error):
    """Return a function that fails."""

    def fail(*_arguments, **_options):
        raise error

    return fail


def hurry(patch):
    """Let each wait end at its second look."""
    patch.setattr(clock.time, "monotonic", count(0, 10_000).__next__)
