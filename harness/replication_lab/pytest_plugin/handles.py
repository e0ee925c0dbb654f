"""A lab as a test sees it: its nodes, its links, and faults that are proved and recover."""

from contextlib import closing, suppress
from types import TracebackType
from typing import Any

from replication_lab import faults, replication
from replication_lab.faults.condition import LinkCondition
from replication_lab.faults.fault import Fault, proofs_of, proofs_of_recovery
from replication_lab.lab.connections import NodeAddress, connections, dsn, variables
from replication_lab.lab.nodes import refuse_unless_running
from replication_lab.lab.up import known_toxic
from replication_lab.model.core.errors import LabError, refuse_unknown
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.fault import NODES, Value
from replication_lab.pytest_plugin.answers import in_a_test, unknown
from replication_lab.world import signals
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Connection as OpenConnection

# pytest leaves the functions of this module out of what it shows of a failure.
__tracebackhide__ = True


class Acting:
    """A fault that acts: proved when it began, and recovered at the end of the `with` block or by `recover`."""

    def __init__(self, fault: Fault, policy: str):
        """Inject the fault; the test ends as --lab-unknown says if it does not take hold."""
        self._fault, self._policy, self._acts = fault, policy, True
        try:
            fault.inject()
            self.proofs = proofs_of(fault)
            self._refuse_unproved(self.proofs)
        except BaseException:
            with closing(fault):
                self._undo()
            raise

    def recover(self) -> list[Proof]:
        """Prove once more that the fault acts, recover, and prove that it is gone; do nothing if it was recovered."""
        if not self._acts:
            return []
        with closing(self._fault):
            try:
                to_the_last = proofs_of(self._fault)
            finally:
                self._undo()
            after = proofs_of_recovery(self._fault)
        self._refuse_unproved([*to_the_last, *after])
        self.proofs += [*to_the_last, *after]
        return self.proofs

    def _undo(self) -> None:
        if self._acts:
            self._acts = False
            with signals.signals_held():
                self._fault.recover()

    def _refuse_unproved(self, proofs: list[Proof]) -> None:
        for proof in proofs:
            if not proof.ok:
                expected = f", expected {proof.expected}" if proof.expected else ""
                unknown(self._policy, f"{proof.what}: found {proof.found}{expected}")

    def __enter__(self) -> "Acting":
        return self

    def __exit__(self, error: type[BaseException] | None, *_: TracebackType | BaseException | None) -> None:
        if error is None:
            self.recover()
            return
        # The test's own error counts; a recovery that fails as well must not hide it.
        with suppress(LabError), closing(self._fault):
            self._undo()


class RunningLab:
    """A lab that is up and proved.

    `dsn` leads to the node at which clients write, as the application's account; `env` has the same as variables.
    """

    def __init__(self, lab: Lab, policy: str, left: list[Acting] | None = None):
        """Wrap a lab; faults that a test leaves are added to `left`."""
        self.raw, self._policy, self._left = lab, policy, left

    def __repr__(self) -> str:
        return f"<lab {self.name}: {self.topology} on {self.engine}>"

    @property
    def name(self) -> str:
        return self.raw.name

    @property
    def topology(self) -> str:
        return self.raw.topology.name

    @property
    def engine(self) -> str:
        return self.raw.engine

    @property
    def nodes(self) -> "list[LabNode]":
        return [LabNode(self, node.name) for node in self.raw.topology.nodes]

    @property
    def links(self) -> "list[LabLink]":
        return [LabLink(self, link.name) for link in self.raw.topology.links]

    def node(self, name: str) -> "LabNode":
        """Return a node by its name; LabError with the names that there are for any other."""
        return LabNode(self, self.raw.topology.node(name).name)

    def link(self, name: str) -> "LabLink":
        """Return a link by its name; LabError with the names that there are for any other."""
        return LabLink(self, self.raw.topology.link(name).name)

    @property
    def writer(self) -> "LabNode":
        """The node at which clients write now; after a failover it is another one."""
        return LabNode(self, replication.of(self.raw).written_at())

    @property
    def dsn(self) -> str:
        return self.writer.dsn

    @property
    def env(self) -> dict[str, str]:
        """The connections as environment variables, the same as `lab env`: MYSQL_HOST, LAB_DSN, LAB_REPLICA_DSN …."""
        return variables(self.raw)

    def connect(self) -> OpenConnection:
        """Return a new connection to the node at which clients write; the caller closes it."""
        return self.writer.connect()

    def wait_until_caught_up(self) -> None:
        """Wait until every copy has all committed transactions."""
        replication.of(self.raw).wait_until_caught_up()

    def fault(self, kind: str, *targets: str, **settings: Value) -> Acting:
        """Inject a fault of the drills, by its name, on nodes or links; docs/drills.md lists them with their keys."""
        known = faults.kinds()
        refuse_unknown("fault", kind, known)
        known[kind].check_settings(f"fault {kind}", settings, known)
        known[kind].check_targets(f"fault {kind}", self.raw.topology, targets)
        unset = {each.name: each.unset for each in known[kind].settings}
        return self.injected(faults.made(self.raw, kind, self._targets(kind, targets), **{**unset, **settings}))

    def _targets(self, kind: str, targets: tuple[str, ...]) -> list[str]:
        if faults.kinds()[kind].acts_on == NODES:
            for name in targets:
                refuse_unless_running(self.raw, name)
            return list(targets)
        return faults.links_of(self.raw.topology, targets)

    def injected(self, fault: Fault) -> Acting:
        """Inject a fault that is made already, such as one of the suite's own."""
        acting = Acting(fault, self._policy)
        if self._left is not None and in_a_test():
            self._left.append(acting)
        return acting


class LabNode:
    """A node: how an application reaches it, SQL to it, and faults of it."""

    def __init__(self, lab: RunningLab, name: str):
        self.lab, self.name = lab, name

    def __repr__(self) -> str:
        return f"<node {self.name} of {self.lab.name}>"

    @property
    def role(self) -> str:
        return self.lab.raw.topology.node(self.name).role

    @property
    def connection(self) -> NodeAddress:
        """Host, port, user, password, database and DSN; LabError if the node does not run."""
        self.lab.raw.refresh()
        for found in connections(self.lab.raw):
            if found.node == self.name:
                return found
        raise LabError(
            f"{self.name} of {self.lab.name} does not run", "a running node", f"./lab status --lab {self.lab.name}"
        )

    @property
    def dsn(self) -> str:
        return self.connection.dsn

    def connect(self) -> OpenConnection:
        """Return a new connection of the application's account; the caller closes it."""
        return self.lab.raw.node(self.name).server().as_application().connect(database="lab")

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Return all rows of an answer, as root."""
        return self.lab.raw.node(self.name).server().run(sql)

    def value(self, sql: str) -> Any:
        """Return the first column of the first row of an answer, as root; None if there is no row."""
        rows = self.rows(sql)
        return next(iter(rows[0].values())) if rows else None

    def execute(self, *statements: str) -> None:
        """Run statements as root."""
        self.lab.raw.node(self.name).server().execute(*statements)

    def logs(self, lines: int = 50) -> str:
        """Return the last lines of the server's log."""
        return self.lab.raw.node(self.name).logs(lines)

    def fault(self, kind: str, **settings: Value) -> Acting:
        """Inject a fault of the drills on this node; on a fault of links, on all of its links."""
        return self.lab.fault(kind, self.name, **settings)

    def kill(self) -> Acting:
        """Kill the server by SIGKILL; recovery starts it again on the same data."""
        return self.fault("kill")

    def stop(self) -> Acting:
        """Stop the server cleanly; recovery starts it again."""
        return self.fault("stop")

    def pause(self) -> Acting:
        """Freeze the server: connections stay open, and nothing answers; recovery lets it continue."""
        return self.fault("pause")

    def cut(self) -> Acting:
        """Cut all links of the node; recovery switches them on."""
        return self.fault("cut")


class LabLink:
    """A link between two nodes."""

    def __init__(self, lab: RunningLab, name: str):
        self.lab, self.name = lab, name

    def __repr__(self) -> str:
        return f"<link {self.name} of {self.lab.name}>"

    @property
    def dsn(self) -> str:
        """A DSN of the server at the far end, across the link: an application that uses it has the link's condition."""
        link = self.lab.raw.link(self.name)
        if link.model.echoes or link.model.server not in {node.name for node in self.lab.raw.topology.nodes}:
            raise LabError(f"no database server answers across {self.name}", "another link")
        _, password = self.lab.raw.application(link.model.server)
        return dsn(password, *self.lab.raw.service("toxiproxy").published(link.model.port))

    def toxic(self, condition: str) -> Acting:
        """Put a condition (200ms, 40ms±5ms, 20mbit, a toxic's name; none) on the link in place of its own.

        It is calibrated and measured. Recovery puts back what was there.
        """
        lab = self.lab
        return lab.injected(LinkCondition(lab.raw, [self.name], known_toxic(condition), calibrate=True))

    def fault(self, kind: str, **settings: Value) -> Acting:
        """Inject a fault of the drills on this link."""
        return self.lab.fault(kind, self.name, **settings)

    def cut(self) -> Acting:
        """Cut the link: connections across it end, and new ones are refused."""
        return self.fault("cut")
