"""A change of the clients' table while they write to it; it stays."""

import re
from collections.abc import Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec

from replication_lab.faults._servers import StaysOnServers
from replication_lab.faults.fault import fault
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.drill import SCHEMA_CHANGE
from replication_lab.model.drill.fault import Setting
from replication_lab.world import clock, requests_made
from replication_lab.world.docker import images, site_images
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server

# The table of the clients of a drill (workloads/ledger.py).
TABLE = "lab.ledger"
# The longest time for the change on one node, and until another node has it.
CHANGE_SECONDS = 1800
# The image with tools that change a table, and the service that runs it.
TOOLS = "tools"
# It counts rows, and is no part of the table's definition.
COUNTED = re.compile(r" AUTO_INCREMENT=\d+")


class ChangeWay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to change a table, an entry of schema_change.yaml."""

    first: tuple[str, ...] = ()
    end: str = ""
    each: bool = False
    tries: int = 1
    replication: str = ""
    command: str = ""


@cache
def ways() -> dict[str, ChangeWay]:
    """Return the ways to change a table, by name."""
    return msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, ChangeWay])


def _check_by(where: str, by: Any) -> None:
    if by not in ways():
        raise BY.refusal(where, SCHEMA_CHANGE, by, f"one of {', '.join(ways())}")


def _check_alter(where: str, alter: Any) -> None:
    if not alter.strip():
        raise ALTER.refusal(where, SCHEMA_CHANGE, alter, "what follows ALTER TABLE and the table, such as ADD COLUMN …")


BY = Setting("by", "", "the way {!r}", _check_by)
ALTER = Setting("alter", "ADD COLUMN note INT NOT NULL DEFAULT 0", "the change {!r}", _check_alter)


@fault(
    SCHEMA_CHANGE,
    does="the table that the clients write to is changed on the node, by `ALTER TABLE lab.ledger` and `alter` (ADD "
    "COLUMN note … by default): `by` is `instant`, `inplace` or `copy`, the server's ALGORITHM; `pt-osc`, Percona's "
    "pt-online-schema-change; and on Galera also `toi` or `rsu`, one node after another. The change stays",
    proof="the definition of the table is another one than before, and the same on every node, also between the "
    "readings",
    settings=(BY, ALTER),
    one_target=True,
)
class SchemaChange(StaysOnServers):
    """A change that begins on one node, and is expected on all. There is nothing to undo."""

    state = "the table has its new definition"
    afterwards = "still changed"

    def __init__(self, lab: Lab, nodes: Sequence[str], by: str, alter: str = str(ALTER.unset)):
        super().__init__(lab, [node.name for node in lab.topology.nodes])
        (self._node,) = nodes
        self._way, self._alter = ways()[by], alter
        only = self._way.replication
        if only and only != lab.topology.replication:
            raise LabError(f"schema-change by {by} in {lab.topology.name}", f"a topology with {only}", "./lab drill")
        if self._way.command:
            images.ensure([TOOLS])
            site_images.bring(lab.node(self._node).site, [images.PREFIX + TOOLS])
            # Several steps of a drill may use it.
            if TOOLS not in lab.containers:
                lab.run_beside(self._node, TOOLS, images.PREFIX + TOOLS)
        self._before = self._wanted = definition(self.server(self._node))

    def inject(self) -> None:
        # An earlier step of the drill may have changed it since this fault was made.
        self._before = definition(self.server(self._node))
        # What a node does meanwhile follows from it: with RSU it leaves flow control.
        with requests_made.noted(SCHEMA_CHANGE, self._node), requests_made.noted(requests_made.DEFINES, self._node):
            if self._way.command:
                _, password = self.lab.administrator(self._node)
                given = {"NODE": self._node, "ALTER": self._alter, "MYSQL_PWD": password}
                command = f"timeout {CHANGE_SECONDS} {self._way.command}"
                self.lab.service(TOOLS).run("bash", "-c", command, environment=given)
            else:
                for node in self.nodes if self._way.each else [self._node]:
                    clock.try_again(partial(self._alter_on, node), LabError, self._way.tries)
            self._wanted = definition(self.server(self._node))
            super().inject()

    def _alter_on(self, node: str) -> None:
        with closing(self.server(node).answering_within(CHANGE_SECONDS)) as session:
            session.execute(*self._way.first, f"ALTER TABLE {TABLE} {self._alter}{self._way.end}")

    def begin(self, node: str) -> None:
        self.wait_for_state(node, f"{node} to have the change", CHANGE_SECONDS)

    def contrary(self, node: str, server: Server) -> str:
        found = definition(server)
        if found == self._before:
            return f"the table was not changed on {node}"
        return "" if found == self._wanted else f"the table on {node} differed from that on {self._node}"

    def close(self) -> None:
        super().close()
        if self._way.command and TOOLS in self.lab.containers:
            self.lab.remove_beside(TOOLS)


def definition(server: Server) -> str:
    """Return the statement that would create the clients' table as it is now."""
    return COUNTED.sub("", server.rows(f"SHOW CREATE TABLE {TABLE}")[0]["Create Table"])
