"""One service of a lab: its container and the actions on it. A node is a service that runs a database server."""

import codecs
import io
import re
import socket
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from docker.errors import APIError, NotFound
from docker.models.containers import Container

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.storage import DATA
from replication_lab.world import catalogue
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import machine, reach, sites, sql_client
from replication_lab.world.docker.client import refusal_told
from replication_lab.world.docker.containers import LabContainers, engine_of, environment_of, seconds_of
from replication_lab.world.docker.labels import ENGINE_LABEL
from replication_lab.world.machines import guest
from replication_lab.world.mysql.dialects import Dialect, dialects
from replication_lab.world.mysql.server import Server

STOP_SECONDS, SOON_SECONDS = 30, 2
LOOPBACK = "127."
# The longest time in which a proxy ends a connection that leads nowhere.
CLOSED_SECONDS = 0.5
# As in images/database/docker-entrypoint.sh.
CLOCK = "/run/mysqld/clock"
# The names of variables with a password, not with the name of a file that has one.
PASSWORD = re.compile(r"(?:PASSWORD|PWD)$")


@dataclass(frozen=True)
class Service:
    """A service by its name in the Compose file; its container is looked up when it is needed."""

    containers: LabContainers
    name: str

    @property
    def project(self) -> str:
        """The name of its lab."""
        return self.containers.project

    @property
    def container(self) -> Container:
        """The container as it was at the lab's first access; LabError if there is none."""
        containers = self.containers.by_service
        if self.name not in containers:
            sites.refuse_missing(self.project, self.name)
            raise LabError(
                f"{self.project} has no container {self.name}", ", ".join(sorted(containers)), "./lab status"
            )
        return containers[self.name]

    def _as_it_is(self) -> Container:
        """Return the container with its state and its settings now."""
        container = self.container
        container.reload()
        return container

    def published(self, port: int) -> tuple[str, int]:
        """Return the host and port at which this process reaches a container's port; LabError if it does not run."""
        host, number = self.bound(port)
        is_reached = self._is_near or not (self.site or host.startswith(LOOPBACK))
        return (host, number) if is_reached else reach.address(host, number, self.site)

    @property
    def site(self) -> str:
        """The endpoint of the engine that its container is in, if it is not the command's own; else empty."""
        return engine_of(self.container).site

    @property
    def _is_near(self) -> bool:
        return not self.site and machine.is_near()

    def bindings(self, port: int) -> list[dict[str, str]]:
        """Return the addresses on the engine's machine of a container's port, each by HostIp and HostPort."""
        return self.network().ports.get(f"{port}/tcp") or []

    def bound(self, port: int) -> tuple[str, int]:
        """Return the host and port on the engine's machine of a container's port; LabError if it does not run."""
        bindings = self.bindings(port)
        if not bindings:
            raise LabError(
                f"{self.name} of {self.project} does not run",
                f"its port {port}",
                f"./lab status --lab {self.project}",
            )
        # A node may have one on its machine's address, too: users reach that from everywhere.
        found = next((each for each in bindings if each["HostIp"].startswith(LOOPBACK) == self._is_near), bindings[0])
        return found["HostIp"], int(found["HostPort"])

    def network(self) -> Container:
        """Return the container whose network a service uses: its own, or that of its sidecar."""
        container = self.container
        mode, _, owner = container.attrs.get("HostConfig", {}).get("NetworkMode", "").partition(":")
        if mode != "container":
            return container
        return next((one for one in self.containers.by_service.values() if one.id == owner), container)

    def addresses(self) -> set[str]:
        """Return the addresses of a service on the lab's network."""
        networks = self.network().attrs["NetworkSettings"]["Networks"].values()
        return {network["IPAddress"] for network in networks}

    def direct_address(self, port: int) -> tuple[str, int]:
        """Return the most direct address of a port: the container's own if there is a route to it, else the published.

        A published port on loopback goes through the engine's userland proxy, which adds 0.2 to 0.4 ms to a round trip:
        as much as a link without toxics. If the engine runs on another machine, only the published port is reachable,
        and what answers at that address here is something else.
        """
        for address in self.addresses() if self._is_near else ():
            if reachable(address, port):
                return address, port
        return self.published(port)

    def run(self, *command: str, environment: Mapping[str, str] | None = None) -> str:
        """Run a command in the container and return its output; LabError with its last lines if it fails."""
        with refusal_told(
            f"`{' '.join(command)[:120]}` cannot be run in {self.name}",
            "a running container",
            f"./lab status --lab {self.project}",
        ):
            answer = self.container.exec_run(list(command), demux=True, environment=dict(environment or {}))
        pair: Iterable[bytes] = answer.output  # type: ignore[assignment]  # with demux a pair, which the stubs lack
        out, err = (part.decode(errors="replace") for part in pair)
        if answer.exit_code:
            said = without_passwords((err or out).strip(), {**environment_of(self.container), **(environment or {})})
            last = "\n  ".join(said.splitlines()[-8:])
            if command[:1] == tuple(guest.IN_GUEST) and answer.exit_code == guest.SILENT:
                raise guest.silent(self.container, self.name, self.project, last)
            raise LabError(
                f"`{' '.join(command)[:120]}` in {self.name} ended with status {answer.exit_code}:\n  {last}",
                "exit status 0",
                "./lab status",
            )
        return out

    def put(self, path: str, content: bytes, root: str = "", mode: int = 0o644) -> None:
        """Write a file into a container, by default readable by all; below `root`, missing folders are made."""
        folder = root or str(Path(path).parent)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            entry = tarfile.TarInfo(str(Path(path).relative_to(folder)))
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
        self.container.put_archive(folder, packed.getvalue())

    def text_of(self, path: str) -> str:
        """Return the text of a file in the container, which need not run; an empty string if there is no such file."""
        try:
            chunks, _ = self.container.get_archive(path)
        except NotFound:
            return ""
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            content = archive.extractfile(archive.getmembers()[0])
            return content.read().decode() if content else ""

    def usage(self) -> dict[str, Any]:
        """Return one sample of the Docker API's statistics of the container."""
        return engine_of(self.container).api.stats(str(self.container.id), stream=False, one_shot=True)

    def memory_mib(self) -> float:
        """Return the memory of a container's processes, without page cache, in MiB."""
        usage = self.usage()["memory_stats"]
        cache = usage["stats"].get("total_inactive_file", usage["stats"].get("inactive_file", 0))
        return (usage["usage"] - cache) / (1 << 20)

    def _apply(self, act: Callable[[Container], object]) -> None:
        """Apply an action to a container; LabError if the engine refuses, as for one that has ended by itself."""
        with refusal_told(
            f"{self.name} of {self.project}",
            "a container that is in the right state for this command",
            f"./lab status --lab {self.project}",
        ):
            act(self.container)

    def kill(self, signal: str = "SIGKILL") -> None:
        """Send a signal to a container's first process: SIGKILL is like a power cut, but the page cache survives."""
        with self.ending():
            self._apply(lambda container: container.kill(signal))

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the container has not ended after STOP_SECONDS."""
        with self.ending():
            self._apply(lambda container: container.stop(timeout=STOP_SECONDS))

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Keep the CPU time of a container that the block ends: Docker counts each run from zero."""
        used = 0.0
        with suppress(APIError):
            used = seconds_of(self.usage())
        yield
        # Not after an error: a container that is still running would count twice.
        ended = self.containers.cpu_of_ended
        ended[self.name] = ended.get(self.name, 0.0) + used

    def pause(self) -> None:
        self._apply(lambda container: container.pause())

    def unpause(self) -> None:
        self._apply(lambda container: container.unpause())

    def start_again(self) -> None:
        """Start a container that has ended; its data and its network are unchanged."""
        self._apply(lambda container: container.start())
        self.containers.refresh()

    def started_at(self) -> str:
        """Return when a container was last started, ISO 8601."""
        return self._as_it_is().attrs["State"]["StartedAt"]

    def state(self) -> tuple[str, int]:
        """Return a container's current status and exit status."""
        container = self._as_it_is()
        return container.status, container.attrs["State"]["ExitCode"]

    def is_healthy(self) -> bool:
        """Return whether the container's own health check reports healthy now."""
        return self._as_it_is().attrs["State"].get("Health", {}).get("Status") == "healthy"

    def failed_check(self) -> str:
        """Return the last health check's output if it failed, such as "joining: 154 MiB …"; else ""."""
        checks = self.container.attrs["State"].get("Health", {}).get("Log")
        return checks[-1]["Output"].strip() if checks and checks[-1]["ExitCode"] else ""

    def logs(self, lines: int | Literal["all"] = 12, seconds: float | None = None) -> str:
        """Return the last lines of a container's log, or "all" of them; only those of the last `seconds`, if given."""
        return self.container.logs(tail=lines, since=_since(seconds)).decode(errors="replace")

    def dated_logs(self) -> list[tuple[float, str]]:
        """Return each line of a container's log with its time in seconds since the epoch; LabError if there is none."""
        with refusal_told(
            f"the log of {self.name} cannot be read",
            "a container that is there, and whose log the engine keeps",
            f"docker inspect {self.container.name}",
        ):
            lines = self.container.logs(timestamps=True).decode(errors="replace").splitlines()
        dated = (line.partition(" ") for line in lines)
        return [(datetime.fromisoformat(at).timestamp(), text) for at, _, text in dated]

    def follow_logs(self, lines: int | Literal["all"], seconds: float | None = None) -> Iterator[str]:
        """Yield the last lines of a container's log, then new ones as they come, until the container ends."""
        chunks = self.container.logs(tail=lines, since=_since(seconds), stream=True, follow=True)
        yield from codecs.iterdecode(chunks, "utf-8", errors="replace")

    def logs_since_start(self) -> str:
        """Return a container's log since it was last started."""
        began = datetime.fromisoformat(self.started_at()).timestamp()
        return self.container.logs(since=began).decode(errors="replace")

    def cpu_quota_us(self) -> int:
        """Return the microseconds of CPU that a container gets in each period; 0 for no limit."""
        return max(self._as_it_is().attrs["HostConfig"]["CpuQuota"], 0)

    def limit_cpu(self, quota_us: int, period_us: int) -> None:
        """Limit a container to this many microseconds of CPU in each period; 0 for no limit."""
        self.container.update(cpu_period=period_us, cpu_quota=quota_us or -1)

    def throttled(self) -> int:
        """Return the number of periods in which a container's CPU limit acted."""
        return self.usage()["cpu_stats"]["throttling_data"]["throttled_periods"]

    def memory_limit(self) -> int:
        """Return the bytes that a container may use; 0 for no limit."""
        limit = self._as_it_is().attrs["HostConfig"]["Memory"]
        return limit if 0 < limit < docker_engine.memory() else 0

    def memory_used(self) -> int:
        """Return the bytes that count towards a container's limit, page cache included."""
        return int(self.usage()["memory_stats"]["usage"])

    def limit_memory(self, limit: int) -> None:
        """Limit a container to this many bytes, swap included; 0 for no limit.

        The engine cannot remove a limit. A limit of the machine's whole memory has the same effect.
        """
        most = limit or docker_engine.memory()
        self.container.update(mem_limit=most, memswap_limit=most)


@dataclass(frozen=True)
class Node(Service):
    """A service that runs a database server."""

    connect: Callable[["Node"], Server]

    def server(self) -> Server:
        """Return its server, the same object for all callers; LabError if the container does not run."""
        servers = self.containers.servers
        if self.name not in servers:
            servers[self.name] = self.connect(self)
        return servers[self.name]

    def answers(self) -> bool:
        """Return whether its server answers a query."""
        with suppress(LabError):
            return bool(self.server().version())
        return False

    def answers_soon(self) -> bool:
        """Return whether its container runs and its server answers within SOON_SECONDS; a frozen one does not."""
        if self.state()[0] != "running":
            return False
        with suppress(LabError), closing(self.server().within(SOON_SECONDS)) as server:
            return bool(server.version())
        return False

    @property
    def dialect(self) -> Dialect:
        """The dialect of the engine whose files it was started with; the start verified it by the server's version."""
        return dialects()[catalogue.engine(self.container.labels.get(ENGINE_LABEL, "")).dialect]

    def run_sql(
        self, command: Sequence[str], password: str, sql: str, place_of: Callable[[int | None], str]
    ) -> sql_client.Failure | None:
        """Run statements by the client that a command starts in the container; return how it failed, if it did."""
        return sql_client.run(self, command, password, sql, place_of)

    def set_clock(self, seconds: int) -> None:
        """Set a server's clock this many seconds ahead, within about a second; only in a lab with movable clocks."""
        self.run("sh", "-c", f"echo {seconds:+d} >{CLOCK}")

    def data_device(self) -> str:
        """Return MAJOR:MINOR of the device that a node's data directory is on, in the kernel's notation."""
        mounts = [line.split() for line in self.run("cat", "/proc/self/mountinfo").splitlines()]
        return next((fields[2] for fields in reversed(mounts) if fields[4] == DATA), "")


def without_passwords(text: str, environment: Mapping[str, str]) -> str:
    """Return a text without the passwords in an environment: a failed script may print what it was given."""
    secrets = {value for name, value in environment.items() if PASSWORD.search(name) and value}
    # The longest first: one may be part of another.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _since(seconds: float | None) -> float | None:
    """Return the moment so many seconds ago, as the engine takes it; None without a limit."""
    return None if seconds is None else datetime.now(UTC).timestamp() - seconds


def stays_open(address: tuple[str, int]) -> bool:
    """Return whether a connection is not ended at once, as Toxiproxy ends it if nothing listens behind it."""
    try:
        with socket.create_connection(address, timeout=CLOSED_SECONDS) as connection:
            return bool(connection.recv(1))
    except TimeoutError:
        return True
    except OSError:
        return False


def reachable(address: str, port: int) -> bool:
    """Return whether something accepts connections at this address."""
    with suppress(OSError), socket.create_connection((address, port), timeout=0.3):
        return True
    return False
