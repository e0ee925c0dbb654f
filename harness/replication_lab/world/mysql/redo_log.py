"""The redo log of one server, by its counters."""

from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.world.mysql.server import Server


@dataclass(frozen=True)
class Redo:
    """The redo log: bytes written since the server was created, and bytes whose pages are not on the disk yet."""

    written: int
    age: int


def read_redo(server: Server) -> Redo:
    """Return the bytes that a server has written to its redo log, and those whose pages are not on the disk yet."""
    names = server.dialect.redo
    if names is None:
        raise LabError(f"the size of {server.name}'s redo log is unknown", "redo in dialects.yaml", "./lab engines")
    found = server.counters(names.written, names.checkpoint)
    return Redo(found[names.written], found[names.written] - found[names.checkpoint])
