"""Is the lab's schema on a server of the user's removed again, whatever fails, and no other one?"""

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.world.mysql.own_schema import is_left, own_schema


class Server:
    """A server with schemas by name, each with its tables; `refuses` is the beginning of a statement that fails."""

    name = "db"

    def __init__(self, schemas=(), refuses="-"):
        self.schemas, self._refuses = dict(schemas), refuses

    def rows(self, sql):
        if sql.startswith("SHOW DATABASES"):
            return [name for name in self.schemas if f"'{name}'" in sql]
        return [table for table in self.schemas["lab"] if f"'{table}'" in sql]

    def execute(self, *statements):
        for sql in statements:
            if sql.startswith(self._refuses):
                raise LabError("access denied")
            if sql == "CREATE SCHEMA lab":
                self.schemas["lab"] = []
            elif sql.startswith("CREATE TABLE lab."):
                self.schemas["lab"].append(sql.partition("lab.")[2].split()[0])
            elif sql == "DROP SCHEMA lab":
                del self.schemas["lab"]


def test_the_schema_is_there_for_the_block_and_gone_after_it():
    """Also after an error, and one of a killed drill is replaced."""
    server = Server()
    with own_schema(server):
        assert is_left(server)
    with pytest.raises(KeyboardInterrupt), own_schema(server):
        raise KeyboardInterrupt
    assert server.schemas == {}


def test_a_schema_that_cannot_be_marked_is_removed_at_once(refused):
    """Sabotage: the account may create a schema and no table. Later nothing would know that it is the lab's."""
    server = Server(refuses="CREATE TABLE")
    error = refused(own_schema(server).__enter__)

    assert "cannot make a schema" in error.found and server.schemas == {}


def test_a_schema_of_the_user_s_own_is_refused_and_kept(refused):
    """By the mark, not by the name."""
    server = Server({"lab": ["experiments"]})
    error = refused(own_schema(server).__enter__)

    assert "has a schema lab, which the lab did not make" in error.found and server.schemas == {"lab": ["experiments"]}
    assert not is_left(server)
