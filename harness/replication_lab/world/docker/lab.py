"""One lab: a Compose project, its containers by service, its servers and its links."""

import io
import os
import socket
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from docker.errors import APIError
from docker.models.containers import Container

from replication_lab.model.errors import LabError
from replication_lab.model.proof import Proof
from replication_lab.model.topology import Link, Topology
from replication_lab.world import catalogue
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import labels, leftovers
from replication_lab.world.echo import Echo
from replication_lab.world.files import write_whole
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.server import Server
from replication_lab.world.toxiproxy import Toxiproxy, Wire

STOP_SECONDS = 30
# As in images/database/docker-entrypoint.sh.
CLOCK = "/run/mysqld/clock"
# A kernel's panic takes about forty to say.
DEATH_LINES = 60


class State(msgspec.Struct, frozen=True):
    """What runs/labs/NAME.json remembers of a lab that came up whole and is meant to stay."""

    topology: str
    engine: str
    proofs: list[Proof]
    toxics: dict[str, str]


@dataclass(frozen=True)
class Lab:
    """A lab by its Compose project's name. Cheap to make; it looks at the engine only when asked something."""

    name: str
    topology: Topology
    engine: str
    password: str
    # What starts its virtual machines, where the topology has some.
    launcher: str = ""
    # Whether `set_clock` moves its servers' time.
    clocks_move: bool = False

    @property
    def env_file(self) -> Path:
        return leftovers.STATE / f"{self.name}.env"

    @property
    def state_file(self) -> Path:
        return leftovers.STATE / f"{self.name}.json"

    @property
    def overlay_file(self) -> Path:
        return leftovers.STATE / f"{self.name}.storage.yaml"

    @cached_property
    def containers(self) -> dict[str, Container]:
        """This lab's containers by service, as they were when first asked for."""
        return {container.labels[labels.SERVICE]: container for container in labels.containers(self.name)}

    @cached_property
    def toxiproxy(self) -> Toxiproxy:
        host, port = self.published("toxiproxy", 8474)
        return Toxiproxy(f"{host}:{port}")

    def published(self, service: str, port: int) -> tuple[str, int]:
        """Where a container's port is reached on this machine; LabError when the container does not run."""
        bindings = self._network_of(service).ports.get(f"{port}/tcp")
        if not bindings:
            raise LabError(f"{service} of {self.name} does not run", f"its port {port}", f"./lab status {self.name}")
        return bindings[0]["HostIp"], int(bindings[0]["HostPort"])

    def _network_of(self, service: str) -> Container:
        """The container whose network a service uses: its own, or that of its sidecar."""
        container = self.container(service)
        mode, _, owner = container.attrs.get("HostConfig", {}).get("NetworkMode", "").partition(":")
        if mode != "container":
            return container
        return next((one for one in self.containers.values() if one.id == owner), container)

    def addresses(self, service: str) -> set[str]:
        """The addresses of a service on the lab's network."""
        networks = self._network_of(service).attrs["NetworkSettings"]["Networks"].values()
        return {network["IPAddress"] for network in networks}

    def container(self, service: str) -> Container:
        if service not in self.containers:
            raise LabError(
                f"{self.name} has no container {service}", ", ".join(sorted(self.containers)), "./lab status"
            )
        return self.containers[service]

    def refresh(self) -> None:
        """Look again: ports and states change when a container is restarted."""
        for name in ("containers", "toxiproxy", "_servers"):
            self.__dict__.pop(name, None)

    @cached_property
    def _servers(self) -> dict[str, Server]:
        return {}

    def _server(self, node: str) -> Server:
        dialect = dialects()[catalogue.engines()[self.engine].dialect]
        return Server(node, self.published(node, 3306), dialect, self.password)

    def server(self, node: str) -> Server:
        """A node's server; LabError where its container does not run."""
        self.topology.node(node)
        if node not in self._servers:
            self._servers[node] = self._server(node)
        return self._servers[node]

    def link(self, name: str) -> Link:
        """A link of the topology's, or one that a failover made."""
        known = {proxy for link in self.topology.links for proxy in (link.name, *link.proxies)}
        made = None if name in known else self.toxiproxy.proxies().get(name)
        if made is None:
            return self.topology.link(name)
        source = made["upstream"].rpartition(":")[0]
        return Link(name, made["listen"], made["upstream"], source, name.removeprefix(f"{source}-"), (name,))

    def far_end(self, link: str) -> Server | Echo:
        """What answers at the far end of a link."""
        found = self.link(link)
        return Echo(found.server) if found.echoes else self.server(found.server)

    def wire(self, link: str) -> Wire:
        found = self.link(link)
        return Wire(link, self.toxiproxy, self.nearest("toxiproxy", found.port), found.proxies)

    def nearest(self, service: str, port: int) -> tuple[str, int]:
        """The shortest way to a port: the container's own address where this machine routes to it, else the published.

        A published port of loopback goes through the engine's userland proxy, 0.2 to 0.4 ms a round trip: as much as
        a link without toxics. Where the engine runs in a machine of its own there is no other way.
        """
        for address in self.addresses(service):
            if _is_reachable(address, port):
                return address, port
        return self.published(service, port)

    def run(self, service: str, *command: str) -> str:
        """What a command in a container prints; LabError with its last lines when it fails."""
        try:
            answer = self.container(service).exec_run(list(command), demux=True)
        except APIError as error:
            raise LabError(
                f"`{' '.join(command)[:120]}` cannot be run in {service}: {error.explanation or error}",
                "a running container",
                f"./lab status {self.name}",
            ) from error
        out, err = (part.decode(errors="replace") if part else "" for part in answer.output)
        if answer.exit_code:
            last = "\n  ".join((err or out).strip().splitlines()[-8:])
            raise LabError(
                f"`{' '.join(command)[:120]}` in {service} ended with {answer.exit_code}:\n  {last}",
                "exit status 0",
                "./lab status",
            )
        return out

    def put(self, service: str, path: str, content: bytes) -> None:
        """Write a file into a container, readable by all."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            entry = tarfile.TarInfo(Path(path).name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
        self.container(service).put_archive(str(Path(path).parent), packed.getvalue())

    def cpu_seconds(self) -> float:
        """CPU time that the lab's containers have used since they started, in seconds."""
        api = docker_engine.client().api
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda one: api.stats(one.id, stream=False, one_shot=True), self.containers.values())
            return sum(answer["cpu_stats"]["cpu_usage"]["total_usage"] for answer in answers) / 1e9

    def usage(self, service: str) -> dict[str, Any]:
        """What the engine counts of a container: its API's stats, of one moment."""
        return docker_engine.client().api.stats(self.container(service).id, stream=False, one_shot=True)

    def data_device(self, node: str) -> str:
        """MAJOR:MINOR of the device that a node's data directory is on, as the kernel calls it."""
        mounts = [line.split() for line in self.run(node, "cat", "/proc/self/mountinfo").splitlines()]
        return next((fields[2] for fields in reversed(mounts) if fields[4] == "/var/lib/mysql"), "")

    def memory_mib(self, service: str) -> float:
        """What a container's processes hold in memory, page cache left out, in MiB."""
        usage = self.usage(service)["memory_stats"]
        cache = usage["stats"].get("total_inactive_file", usage["stats"].get("inactive_file", 0))
        return (usage["usage"] - cache) / (1 << 20)

    def place(self, *sites: tuple[str, ...]) -> dict[str, str]:
        """Give each site (a tuple of services) CPUs of its own, as machines in different places have: {service: CPUs}.

        Otherwise the scheduler moves client and server between sharing a core and not, and the same load commits now
        7 000, now 16 000 rows a second. Does nothing where there are fewer CPUs than sites.
        """
        cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        share = len(cpus) // len(sites)
        if not share:
            return {}
        placed = {service: cpus[at * share : (at + 1) * share] for at, site in enumerate(sites) for service in site}
        given = {service: ",".join(map(str, numbers)) for service, numbers in placed.items()}
        for service, numbers in given.items():
            self.container(service).update(cpuset_cpus=numbers)
        return given

    def image_digests(self) -> dict[str, str]:
        return {service: container.attrs["Image"] for service, container in sorted(self.containers.items())}

    def why_ended(self) -> str:
        """Which container has ended by itself and its last log lines, or nothing."""
        self.refresh()
        for service, container in self.containers.items():
            if container.status in ("exited", "dead"):
                code = container.attrs["State"]["ExitCode"]
                log = self.logs(service, DEATH_LINES).strip().replace("\n", "\n  ")
                return f"{service} ended with status {code}. Its last log lines:\n  {log}"
        return ""

    def set_clock(self, node: str, seconds: int) -> None:
        """Move a server's time so far from the machine's, within about a second; where its lab's clocks move."""
        self.run(node, "sh", "-c", f"echo {seconds:+d} >{CLOCK}")

    def _have(self, service: str, act: Callable[[Container], object]) -> None:
        """Do something to a container; LabError where the engine refuses, as for one that has ended by itself."""
        try:
            act(self.container(service))
        except APIError as error:
            said = f"{service} of {self.name}: {error.explanation or error}"
            raise LabError(said, "a container in the state for it", f"./lab status {self.name}") from error

    def kill(self, service: str) -> None:
        """SIGKILL to a container's first process: what a power cut is to a server, but for the machine's page cache."""
        self._have(service, lambda container: container.kill())

    def stop(self, service: str) -> None:
        """SIGTERM, and SIGKILL for one that has not ended after a while."""
        self._have(service, lambda container: container.stop(timeout=STOP_SECONDS))

    def pause(self, service: str) -> None:
        self._have(service, lambda container: container.pause())

    def unpause(self, service: str) -> None:
        self._have(service, lambda container: container.unpause())

    def started_at(self, service: str) -> str:
        """When a container was started last, ISO 8601."""
        container = self.container(service)
        container.reload()
        return container.attrs["State"]["StartedAt"]

    def cpu_quota_us(self, service: str) -> int:
        """Microseconds of CPU that a container gets in each period; 0 for no limit."""
        return max(self._host_config(service)["CpuQuota"], 0)

    def limit_cpu(self, service: str, quota_us: int, period_us: int) -> None:
        """At most so many microseconds of CPU in each period; 0 for no limit."""
        self.container(service).update(cpu_period=period_us, cpu_quota=quota_us or -1)

    def throttled(self, service: str) -> int:
        """In how many periods a container would have used more CPU than it gets."""
        return self.usage(service)["cpu_stats"]["throttling_data"]["throttled_periods"]

    def memory_limit(self, service: str) -> int:
        """Bytes that a container may use; 0 for no limit."""
        limit = self._host_config(service)["Memory"]
        return limit if 0 < limit < docker_engine.memory() else 0

    def memory_used(self, service: str) -> int:
        """Bytes that a container takes of what it may, page cache included."""
        return int(self.usage(service)["memory_stats"]["usage"])

    def limit_memory(self, service: str, limit: int) -> None:
        """At most so many bytes, swap included; 0 for no limit.

        The engine takes no limit away again: all the memory that there is comes to the same.
        """
        most = limit or docker_engine.memory()
        self.container(service).update(mem_limit=most, memswap_limit=most)

    def _host_config(self, service: str) -> dict[str, Any]:
        container = self.container(service)
        container.reload()
        return container.attrs["HostConfig"]

    def start_again(self, service: str) -> None:
        """Start a container that has ended; its data and its network are as it left them."""
        self._have(service, lambda container: container.start())
        self.refresh()

    def is_healthy(self, service: str) -> bool:
        """Whether the container's own health check says so now."""
        container = self.container(service)
        container.reload()
        return container.attrs["State"].get("Health", {}).get("Status") == "healthy"

    def failed_check(self, service: str) -> str:
        """What the last health check said if it failed, such as how much of its data has arrived; else nothing."""
        checks = self.container(service).attrs["State"].get("Health", {}).get("Log")
        return checks[-1]["Output"].strip() if checks and checks[-1]["ExitCode"] else ""

    def logs(self, service: str, lines: int | str = 12) -> str:
        """The last lines of a container's log, or "all" of them."""
        return self.container(service).logs(tail=lines).decode(errors="replace")

    def state_of(self, service: str) -> tuple[str, int]:
        """A container's status and exit status, looked up now."""
        container = self.container(service)
        container.reload()
        return container.status, container.attrs["State"]["ExitCode"]

    def state(self) -> State | None:
        """What was remembered when the lab came up, or None where it never did."""
        try:
            return msgspec.json.decode(self.state_file.read_bytes(), type=State)
        except (OSError, msgspec.DecodeError):
            return None

    def keep(self, proofs: list[Proof], toxics: dict[str, str]) -> None:
        """Remember that this lab came up whole: from now on nobody takes it for something left behind."""
        write_whole(
            self.state_file,
            msgspec.json.format(msgspec.json.encode(State(self.topology.name, self.engine, proofs, toxics))),
        )

    def is_own(self) -> bool:
        """Whether this very process started it."""
        return leftovers.owner() in {container.labels[labels.LABEL] for container in self.containers.values()}

    def is_in_use(self) -> bool:
        """Whether the process that started it still runs: a run or a test of its own, not to be taken from it."""
        marks = {container.labels[labels.LABEL] for container in self.containers.values()}
        return any(leftovers.is_alive(mark) for mark in marks)

    def down(self) -> None:
        """Take everything of this lab away. Its data go too, so nothing is stopped gently."""
        leftovers.remove(self.name)


def _is_reachable(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=0.3):
            return True
    except OSError:
        return False
