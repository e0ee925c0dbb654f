"""Are all changed pages written before a load begins, by an order where the server takes one?"""

import pytest
from replication_lab.world.mysql import flush

CLEANER, ORDER = "innodb_max_dirty_pages_pct", "innodb_log_checkpoint_now"


class Server:
    """A server whose pages are written at once by the order, or in part each time that somebody looks."""

    name = "replica"

    def __init__(self, variables, obeys=True):
        self.variables, self.obeys, self.dirty, self.looks, self.told = variables, obeys, 2000, 0, {}

    def settings(self, *names):
        return {name: "OFF" for name in names if name in self.variables}

    def set_global(self, **settings):
        self.told |= settings
        if settings.get(ORDER) == "ON" and self.obeys:
            self.dirty = 0

    def rows(self, _statement):
        self.looks += 1
        if self.told[CLEANER] == 0:
            self.dirty = max(0, self.dirty - 700)
        return [{"Value": str(self.dirty)}]


@pytest.fixture(autouse=True)
def clock(fake_world):
    fake_world()


def test_a_server_that_takes_the_order_has_written_at_the_first_look():
    """One order suffices."""
    server = Server({ORDER})
    flush.write_pages(server)

    assert (server.looks, server.dirty) == (1, 0)


@pytest.mark.parametrize("server", [Server(set()), Server({ORDER}, obeys=False)], ids=("without it", "deaf to it"))
def test_another_one_is_waited_for(server):
    """The order is never trusted: what counts is the number of changed pages."""
    flush.write_pages(server)

    assert server.looks == 3 and server.dirty <= flush.FEW_PAGES


@pytest.mark.parametrize("variables", [set(), {ORDER}])
def test_the_cleaner_works_as_usual_afterwards(variables):
    """Its rates are the defaults again, and only a server that has the order got it."""
    server = Server(variables)
    flush.write_pages(server)

    assert flush.USUALLY.items() <= server.told.items()
    assert (ORDER in server.told) == (ORDER in variables)
