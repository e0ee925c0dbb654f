"""One service of a lab: its container, and what is done to it; a node is one that runs a database server."""

import io
import socket
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docker.errors import APIError
from docker.models.containers import Container

from replication_lab.model.errors import LabError
from replication_lab.world import catalogue
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.server import Server

if TYPE_CHECKING:
    from replication_lab.world.docker.lab import Lab

STOP_SECONDS = 30
# As in images/database/docker-entrypoint.sh.
CLOCK = "/run/mysqld/clock"


@dataclass(frozen=True)
class Service:
    """A service by its name in the Compose file. Cheap to make; its container is looked up when it is asked for."""

    lab: "Lab"
    name: str

    @property
    def container(self) -> Container:
        """The container as its lab saw it first; LabError where there is none."""
        containers = self.lab.containers
        if self.name not in containers:
            raise LabError(
                f"{self.lab.name} has no container {self.name}", ", ".join(sorted(containers)), "./lab status"
            )
        return containers[self.name]

    def published(self, port: int) -> tuple[str, int]:
        """Where a container's port is reached on this machine; LabError when the container does not run."""
        bindings = self._network().ports.get(f"{port}/tcp")
        if not bindings:
            raise LabError(
                f"{self.name} of {self.lab.name} does not run", f"its port {port}", f"./lab status {self.lab.name}"
            )
        return bindings[0]["HostIp"], int(bindings[0]["HostPort"])

    def _network(self) -> Container:
        """The container whose network a service uses: its own, or that of its sidecar."""
        container = self.container
        mode, _, owner = container.attrs.get("HostConfig", {}).get("NetworkMode", "").partition(":")
        if mode != "container":
            return container
        return next((one for one in self.lab.containers.values() if one.id == owner), container)

    def addresses(self) -> set[str]:
        """The addresses of a service on the lab's network."""
        networks = self._network().attrs["NetworkSettings"]["Networks"].values()
        return {network["IPAddress"] for network in networks}

    def nearest(self, port: int) -> tuple[str, int]:
        """The shortest way to a port: the container's own address where this machine routes to it, else the published.

        A published port of loopback goes through the engine's userland proxy, 0.2 to 0.4 ms a round trip: as much as
        a link without toxics. Where the engine runs in a machine of its own there is no other way.
        """
        for address in self.addresses():
            if _is_reachable(address, port):
                return address, port
        return self.published(port)

    def run(self, *command: str) -> str:
        """What a command in a container prints; LabError with its last lines when it fails."""
        try:
            answer = self.container.exec_run(list(command), demux=True)
        except APIError as error:
            raise LabError(
                f"`{' '.join(command)[:120]}` cannot be run in {self.name}: {error.explanation or error}",
                "a running container",
                f"./lab status {self.lab.name}",
            ) from error
        out, err = (part.decode(errors="replace") if part else "" for part in answer.output)
        if answer.exit_code:
            last = "\n  ".join((err or out).strip().splitlines()[-8:])
            raise LabError(
                f"`{' '.join(command)[:120]}` in {self.name} ended with {answer.exit_code}:\n  {last}",
                "exit status 0",
                "./lab status",
            )
        return out

    def put(self, path: str, content: bytes) -> None:
        """Write a file into a container, readable by all."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            entry = tarfile.TarInfo(Path(path).name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
        self.container.put_archive(str(Path(path).parent), packed.getvalue())

    def usage(self) -> dict[str, Any]:
        """What the engine counts of a container: its API's stats, of one moment."""
        return docker_engine.client().api.stats(self.container.id, stream=False, one_shot=True)

    def memory_mib(self) -> float:
        """What a container's processes hold in memory, page cache left out, in MiB."""
        usage = self.usage()["memory_stats"]
        cache = usage["stats"].get("total_inactive_file", usage["stats"].get("inactive_file", 0))
        return (usage["usage"] - cache) / (1 << 20)

    def _have(self, act: Callable[[Container], object]) -> None:
        """Do something to a container; LabError where the engine refuses, as for one that has ended by itself."""
        try:
            act(self.container)
        except APIError as error:
            said = f"{self.name} of {self.lab.name}: {error.explanation or error}"
            raise LabError(said, "a container in the state for it", f"./lab status {self.lab.name}") from error

    def kill(self) -> None:
        """SIGKILL to a container's first process: what a power cut is to a server, but for the machine's page cache."""
        self._have(lambda container: container.kill())

    def stop(self) -> None:
        """SIGTERM, and SIGKILL for one that has not ended after a while."""
        self._have(lambda container: container.stop(timeout=STOP_SECONDS))

    def pause(self) -> None:
        self._have(lambda container: container.pause())

    def unpause(self) -> None:
        self._have(lambda container: container.unpause())

    def start_again(self) -> None:
        """Start a container that has ended; its data and its network are as it left them."""
        self._have(lambda container: container.start())
        self.lab.refresh()

    def started_at(self) -> str:
        """When a container was started last, ISO 8601."""
        container = self.container
        container.reload()
        return container.attrs["State"]["StartedAt"]

    def state(self) -> tuple[str, int]:
        """A container's status and exit status, looked up now."""
        container = self.container
        container.reload()
        return container.status, container.attrs["State"]["ExitCode"]

    def is_healthy(self) -> bool:
        """Whether the container's own health check says so now."""
        container = self.container
        container.reload()
        return container.attrs["State"].get("Health", {}).get("Status") == "healthy"

    def failed_check(self) -> str:
        """What the last health check said if it failed, such as how much of its data has arrived; else nothing."""
        checks = self.container.attrs["State"].get("Health", {}).get("Log")
        return checks[-1]["Output"].strip() if checks and checks[-1]["ExitCode"] else ""

    def logs(self, lines: int | str = 12) -> str:
        """The last lines of a container's log, or "all" of them."""
        return self.container.logs(tail=lines).decode(errors="replace")

    def cpu_quota_us(self) -> int:
        """Microseconds of CPU that a container gets in each period; 0 for no limit."""
        return max(self._host_config()["CpuQuota"], 0)

    def limit_cpu(self, quota_us: int, period_us: int) -> None:
        """At most so many microseconds of CPU in each period; 0 for no limit."""
        self.container.update(cpu_period=period_us, cpu_quota=quota_us or -1)

    def throttled(self) -> int:
        """In how many periods a container would have used more CPU than it gets."""
        return self.usage()["cpu_stats"]["throttling_data"]["throttled_periods"]

    def memory_limit(self) -> int:
        """Bytes that a container may use; 0 for no limit."""
        limit = self._host_config()["Memory"]
        return limit if 0 < limit < docker_engine.memory() else 0

    def memory_used(self) -> int:
        """Bytes that a container takes of what it may, page cache included."""
        return int(self.usage()["memory_stats"]["usage"])

    def limit_memory(self, limit: int) -> None:
        """At most so many bytes, swap included; 0 for no limit.

        The engine takes no limit away again: all the memory that there is comes to the same.
        """
        most = limit or docker_engine.memory()
        self.container.update(mem_limit=most, memswap_limit=most)

    def _host_config(self) -> dict[str, Any]:
        container = self.container
        container.reload()
        return container.attrs["HostConfig"]


@dataclass(frozen=True)
class Node(Service):
    """A service that runs a database server."""

    def server(self) -> Server:
        """Its server, one for all who ask; LabError where the container does not run."""
        self.lab.topology.node(self.name)
        if self.name not in self.lab.servers:
            dialect = dialects()[catalogue.engines()[self.lab.engine].dialect]
            self.lab.servers[self.name] = Server(self.name, self.published(3306), dialect, self.lab.password)
        return self.lab.servers[self.name]

    def set_clock(self, seconds: int) -> None:
        """Move a server's time so far from the machine's, within about a second; where its lab's clocks move."""
        self.run("sh", "-c", f"echo {seconds:+d} >{CLOCK}")

    def data_device(self) -> str:
        """MAJOR:MINOR of the device that a node's data directory is on, as the kernel calls it."""
        mounts = [line.split() for line in self.run("cat", "/proc/self/mountinfo").splitlines()]
        return next((fields[2] for fields in reversed(mounts) if fields[4] == "/var/lib/mysql"), "")


def _is_reachable(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=0.3):
            return True
    except OSError:
        return False
