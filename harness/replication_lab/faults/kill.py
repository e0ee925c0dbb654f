"""Servers that end: killed, stopped or restarted, alone or with their hosts, and started again on their old data."""

from collections.abc import Sequence
from functools import partial

from replication_lab.faults._nodes import START_SECONDS, OnNodes
from replication_lab.faults.cut_off import none_to_break
from replication_lab.faults.fault import fault
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.world import at_once, clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.service import Service

SIGKILL_STATUS = 137
END_SECONDS = 60


@fault(
    "kill",
    does="all targets get SIGKILL at the same moment; recovery starts the same containers on the same data",
    proof="exit status 137; after recovery: the node serves again",
    ends_servers=True,
)
class Kill(OnNodes):
    """Nodes to kill with SIGKILL; recovery starts the same containers on the same data.

    After another signal a server chooses its exit status.
    """

    status, said = SIGKILL_STATUS, "killed"

    def __init__(self, lab: Lab, nodes: Sequence[str], signal: str = "SIGKILL"):
        super().__init__(lab, nodes)
        self._signal = signal

    def parts_of(self, node: str) -> Sequence[Service]:
        """Return the services that end with a node: its server alone."""
        return [self.lab.node(node)]

    def inject(self) -> None:
        self.each(self.end)
        for node in self.nodes:
            for service in self.parts_of(node):
                clock.wait_until(partial(has_ended, service), f"{service.name} to exit", END_SECONDS)

    def end(self, node: str) -> None:
        at_once.of_each(lambda service: service.kill(self._signal), self.parts_of(node))

    def acts(self, node: str) -> Proof:
        """Prove by the exit status of each container that the signal ended it, and nothing else did."""
        ends = {service.name: "{} with status {}".format(*service.state()) for service in self.parts_of(node)}
        said = ", ".join(f"{name} {end}" for name, end in ends.items()) if len(ends) > 1 else ends[next(iter(ends))]
        expected = "exited" + (f" with status {self.status}" if self._signal == "SIGKILL" else "")
        return Proof(f"{node} is {self.said}", said, all(end.startswith(expected) for end in ends.values()), expected)

    def recover(self) -> None:
        self.each(lambda node: self.lab.node(node).start_again())


def has_ended(service: Service) -> bool:
    """Return whether the container of a service has exited."""
    return service.state()[0] == "exited"


@fault(
    "stop",
    does="the node gets SIGTERM; recovery starts the same containers on the same data",
    proof="exit status 0; after recovery: the node serves again",
    ends_servers=True,
)
class Stop(Kill):
    """Nodes to stop with SIGTERM; recovery starts the same containers on the same data."""

    status, said = 0, "stopped"

    def end(self, node: str) -> None:
        self.lab.node(node).stop()


@fault(
    "restart",
    does="the node gets SIGTERM and starts again at once",
    proof="the start time is later than before; after recovery: the node serves again",
    ends_servers=True,
)
class Restart(OnNodes):
    """Nodes to restart; there is nothing to recover from."""

    def inject(self) -> None:
        self._before = {node: self.lab.node(node).started_at() for node in self.nodes}
        self.each(self._restart)

    def _restart(self, node: str) -> None:
        self.end(node)
        self.lab.node(node).start_again()

    def end(self, node: str) -> None:
        self.lab.node(node).stop()

    def acts(self, node: str) -> Proof:
        found = self.lab.node(node).started_at()
        return Proof(
            what=f"{node} is restarted",
            expected=f"a start after {self._before[node]}",
            found=found,
            ok=found > self._before[node],
        )


@fault(
    "crash",
    does="the node gets SIGKILL, starts again at once on its old data, and serves",
    proof="the start time is later than before; after recovery: the node serves again",
    ends_servers=True,
)
class Crash(Restart):
    """Nodes that crash and come back by themselves; they answer again when `inject` returns."""

    def end(self, node: str) -> None:
        self.lab.node(node).kill()

    def _restart(self, node: str) -> None:
        super()._restart(node)
        clock.wait_until(partial(self._answers_again, node), f"{node} to answer again", START_SECONDS, every=0.1)


READY_SECONDS = 60


@fault(
    "host-kill",
    does="the server and everything else on its host get SIGKILL, and the host's address is unreachable; recovery "
    "starts the host, then what was on it. For labs with a failover manager that has a program on each host",
    proof="exit status 137 of each container of the host; after recovery: the node serves again",
    ends_servers=True,
)
class HostKill(Kill):
    """Nodes to kill together with the containers that share their network."""

    said = "killed with its host"

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        super().__init__(lab, nodes)
        self._hosts = {node: self._host_of(node) for node in nodes}

    def _host_of(self, node: str) -> list[Service]:
        """Return the services of a node's host: the one that owns the network first."""
        owner = self.lab.service(node).network()
        if owner.id == self.lab.service(node).container.id:
            raise LabError(
                f"{self.lab.name} has no hosts around its servers: {node} is a container, which `kill` ends",
                "a failover manager with a program on each host",
                "./lab drill semisync --drill manager-host-killed --manager keepalived",
            )
        mode = f"container:{owner.id}"
        shared = [name for name, one in self.lab.containers.items() if one.attrs["HostConfig"]["NetworkMode"] == mode]
        first = next(name for name, one in self.lab.containers.items() if one.id == owner.id)
        return [self.lab.service(name) for name in (first, *sorted(shared))]

    def parts_of(self, node: str) -> list[Service]:
        return self._hosts[node]

    def recover(self) -> None:
        self.each(self._start)

    def _start(self, node: str) -> None:
        host, *others = self._hosts[node]
        host.start_again()
        # Packet rules of the host come first: what the server dials must not go past them.
        clock.wait_until(partial(_is_ready, host), f"{host.name} to be ready", READY_SECONDS, every=0.1)
        for service in others:
            service.start_again()


def _is_ready(service: Service) -> bool:
    """Return whether a container runs and, if it has a health check, is healthy."""
    status, _ = service.state()
    return status == "running" and (service.is_healthy() or not service.container.attrs["State"].get("Health"))


AGAIN_SECONDS = 60


@fault(
    "manager-kill",
    does="the failover manager gets SIGKILL: of a manager beside each node, those of the targets; recovery starts it",
    proof="exit status 137; after recovery: it tells its view",
)
class ManagerKill(Kill):
    """The programs of a manager to kill with SIGKILL."""

    def __init__(self, lab: Lab, nodes: Sequence[str]):
        if lab.manager is None:
            raise none_to_break(lab, "manager")
        self._manager = lab.manager
        super().__init__(lab, [service.name for service in lab.manager.beside(nodes)])

    def parts_of(self, node: str) -> list[Service]:
        return [self.lab.service(node)]

    def recover(self) -> None:
        for service in map(self.lab.service, self.nodes):
            if has_ended(service):
                service.start_again()

    def verify_recovered(self) -> list[Proof]:
        """Wait until the manager tells its view again."""

        def tells() -> bool:
            try:
                return bool(self._manager.view() if self._manager.kind.view else self._manager.said())
            except LabError:
                return False

        clock.wait_until(tells, f"{self._manager.name} to tell its view", AGAIN_SECONDS, every=0.1)
        return [Proof(f"{self._manager.name} runs again", "it tells its view", tells(), "it tells its view")]
