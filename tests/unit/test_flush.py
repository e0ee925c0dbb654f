"""Are all changed pages written before a load begins, at once where the server has a variable for it?"""

import pytest
from replication_lab.world.mysql import flush

CLEANER, VARIABLE = "innodb_max_dirty_pages_pct", "innodb_log_checkpoint_now"


class Server:
    """A server that writes its pages when the variable is set, or some of them before each look at their number."""

    name = "replica"

    def __init__(self, variables, works=True):
        self.variables, self.works, self.dirty, self.looks, self.told = variables, works, 2000, 0, {}

    def settings(self, *names):
        return {name: "OFF" for name in names if name in self.variables}

    def set_global(self, **settings):
        self.told |= settings

    def execute(self, statement):
        assert statement == f"SET GLOBAL {VARIABLE} = ON"
        self.told[VARIABLE] = "ON"
        if self.works:
            self.dirty = 0

    def counters(self, name):
        self.looks += 1
        if self.told[CLEANER] == 0:
            self.dirty = max(0, self.dirty - 700)
        return {name: self.dirty}


@pytest.fixture(autouse=True)
def clock(fake_world):
    fake_world()


def test_a_server_with_the_variable_has_written_at_the_first_look():
    """Setting it once suffices."""
    server = Server({VARIABLE})
    flush.write_pages(server)

    assert (server.looks, server.dirty) == (1, 0)


@pytest.mark.parametrize(
    "server", [Server(set()), Server({VARIABLE}, works=False)], ids=("without it", "without effect")
)
def test_another_one_is_waited_for(server):
    """The number of changed pages counts, whatever was set."""
    flush.write_pages(server)

    assert server.looks == 3 and server.dirty <= flush.FEW_PAGES


@pytest.mark.parametrize("variables", [set(), {VARIABLE}])
def test_the_cleaner_works_as_usual_afterwards(variables):
    """Its rates are the defaults again, and only a server that has the variable was given it."""
    server = Server(variables)
    flush.write_pages(server)

    assert flush.USUALLY.items() <= server.told.items()
    assert (VARIABLE in server.told) == (VARIABLE in variables)
