"""Labs: a Compose project each, stood up by testcontainers, found again by label, and taken away to the last volume."""

import io
import logging
import os
import re
import secrets
import signal
import socket
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import psutil
from docker.errors import APIError, NotFound
from docker.models.containers import Container
from docker.models.volumes import Volume

from replication_lab.model.errors import LabError
from replication_lab.model.storage import Storage
from replication_lab.model.topology import Link, Topology
from replication_lab.world import catalogue
from replication_lab.world.disks import overlay as storage_overlay
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import images
from replication_lab.world.echo import Echo
from replication_lab.world.mysql import server as sql
from replication_lab.world.toxiproxy import Toxiproxy, Wire

LABEL, ENGINE_LABEL = "replication-lab", "replication-lab.engine"
PROJECT, SERVICE = "com.docker.compose.project", "com.docker.compose.service"
PART = "replication-lab.part"
CONFIG_FILES = "com.docker.compose.project.config_files"
WORKING_DIR = "com.docker.compose.project.working_dir"
STATE = catalogue.RUNS / "labs"
WATCH_SECONDS = 0.5
# What the health check of a machine says first that has started neither its disks nor its server, and will not.
GIVEN_UP = "the machine did not start its disks or its server"
STOP_SECONDS = 30
# As in images/database/docker-entrypoint.sh.
CLOCK = "/run/mysqld/clock"
# A kernel's panic takes about forty to say.
DEATH_LINES = 60
STATE_TRANSFERS = ("mariabackup", "rsync")


class Proof(msgspec.Struct, frozen=True):
    """One thing that was proved about a lab when it came up, as `lab status` shows it."""

    what: str
    found: str
    ok: bool


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
        return STATE / f"{self.name}.env"

    @property
    def state_file(self) -> Path:
        return STATE / f"{self.name}.json"

    @property
    def overlay_file(self) -> Path:
        return STATE / f"{self.name}.storage.yaml"

    @cached_property
    def containers(self) -> dict[str, Container]:
        """This lab's containers by service, as they were when first asked for."""
        return {container.labels[SERVICE]: container for container in _containers(self.name)}

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
    def _servers(self) -> dict[str, sql.Server]:
        return {}

    def _server(self, node: str) -> sql.Server:
        dialect = sql.dialects()[catalogue.engines()[self.engine].dialect]
        return sql.Server(node, self.published(node, 3306), dialect, self.password)

    def server(self, node: str) -> sql.Server:
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

    def far_end(self, link: str) -> sql.Server | Echo:
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
        return owner() in {container.labels[LABEL] for container in self.containers.values()}

    def is_in_use(self) -> bool:
        """Whether the process that started it still runs: a run or a test of its own, not to be taken from it."""
        marks = {container.labels[LABEL] for container in self.containers.values()}
        return any(_is_alive(mark) for mark in marks)

    def down(self) -> None:
        """Take everything of this lab away. Its data go too, so nothing is stopped gently."""
        remove(self.name)


def _is_reachable(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=0.3):
            return True
    except OSError:
        return False


def write_whole(path: Path, content: bytes) -> None:
    """Write a file at once or not at all, for its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.chmod(0o600)
    temporary.replace(path)


# -- starting -----------------------------------------------------------------------------------------------------


def start(
    topology: Topology,
    engine: str,
    name: str,
    load: bool = False,
    storage: dict[str, Storage] | None = None,
    launcher: str = "",
    clocks_move: bool = False,
) -> Lab:
    """Stand a topology up and wait until every node is healthy; on any failure take it away again and say why.

    `storage` puts nodes' data on arrays of emulated disks, by node; backends have been chosen. `launcher` starts the
    topology's own virtual machines; none is Compose's default. With `clocks_move` its servers' time can be set.
    """
    from testcontainers.compose import DockerCompose  # only here: half a second that `lab status` need not wait

    # It tells a failed command at length; the error that is raised from it here says what a user can do.
    logging.getLogger("testcontainers").setLevel(logging.CRITICAL)
    lab = Lab(name, topology, engine, secrets.token_urlsafe(12), launcher, clocks_move)
    write_whole(lab.env_file, _environment(lab).encode())
    files = [catalogue.compose_file(topology.name)]
    if storage:
        write_whole(lab.overlay_file, storage_overlay.overlay(name, topology.name, storage).encode())
        files.append(lab.overlay_file)
    compose = DockerCompose(
        context=catalogue.ROOT,
        compose_file_name=[str(file) for file in files],
        env_file=str(lab.env_file),
        profiles=["load"] if load else None,
    )
    try:
        # An exported ENGINE would win over the file that is handed to Compose.
        with exported(_settings(lab)), _ended_when_a_node_is_lost(lab):
            if arrays := storage_overlay.array_names(storage or {}):
                # Compose mounts a node's volumes when it makes the container: the devices have to be there by then.
                replace(compose, services=arrays).start()
            compose.start()
    except subprocess.CalledProcessError as error:
        reason = _why_not_started(lab, error)
        with signals_held():
            lab.down()
        raise reason from error
    except BaseException:
        with signals_held():
            lab.down()
        raise
    return lab


def extend(lab: Lab, overlay: Path, services: list[str]) -> None:
    """Bring services of a running lab up as an overlay now says; what it leaves as it was is not touched."""
    from testcontainers.compose import DockerCompose

    logging.getLogger("testcontainers").setLevel(logging.CRITICAL)
    kept = dict(line.split("=", 1) for line in lab.env_file.read_text().splitlines())
    files = [str(catalogue.compose_file(lab.topology.name)), str(overlay)]
    compose = DockerCompose(catalogue.ROOT, files, env_file=str(lab.env_file), services=services)
    try:
        with exported(kept):
            compose.start()
    except subprocess.CalledProcessError as error:
        lab.refresh()
        raise _why_not_started(lab, error) from error
    lab.refresh()


@contextmanager
def _ended_when_a_node_is_lost(lab: Lab) -> Iterator[None]:
    """End `docker compose up` once a node cannot become healthy any more: it would wait minutes for that."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(WATCH_SECONDS):
            if any(_is_lost(container) for container in _containers(lab.name)):
                for child in psutil.Process().children():
                    with suppress(psutil.Error):
                        if str(lab.env_file) in child.cmdline():
                            child.terminate()
                return

    watcher = threading.Thread(target=watch, daemon=True, name=f"watch {lab.name}")
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _is_lost(container: Container) -> bool:
    """Whether it has ended, or holds a machine that has given up starting (images/vm/guest/server)."""
    checks = container.attrs["State"].get("Health", {}).get("Log") or []
    return container.status in ("exited", "dead") or any(check["Output"].startswith(GIVEN_UP) for check in checks)


def check_name(name: str) -> None:
    """Refuse what Compose would refuse as a project's name."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise LabError(f"{name!r} cannot be the name of a lab", "small letters, digits, - and _", "./lab up --help")


def check_state_transfer() -> None:
    """Refuse a method of full state transfer that a Galera node would refuse, a minute later."""
    chosen = os.environ.get("LAB_SST", STATE_TRANSFERS[0])
    if chosen not in STATE_TRANSFERS:
        raise LabError(f"LAB_SST is {chosen!r}", " or ".join(STATE_TRANSFERS), "unset LAB_SST")


def _environment(lab: Lab) -> str:
    return "".join(f"{key}={value}\n" for key, value in _settings(lab).items())


@contextmanager
def exported(settings: Mapping[str, str]) -> Iterator[None]:
    """Within the block these variables, and not the caller's, are what a child process sees."""
    before = {key: os.environ.get(key) for key in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def refuse_old_data(name: str) -> None:
    """Refuse to start on volumes of an earlier lab of that name: their accounts have another password."""
    only = {"label": [LABEL, f"{PROJECT}={name}"]}
    old = [volume.name for volume in docker_engine.client().volumes.list(filters=only)]
    if old:
        raise LabError(
            f"there is data of an earlier {name}: {', '.join(old)}",
            "a fresh start",
            f"docker volume rm {' '.join(old)}",
        )


def _settings(lab: Lab) -> dict[str, str]:
    return {
        "COMPOSE_PROJECT_NAME": lab.name,
        "ENGINE": lab.engine,
        "LAB_IMAGES": images.source(),
        "LAB_PASSWORD": lab.password,
        "LAB_OWNER": owner(),
        **({"LAB_VM": lab.launcher} if lab.launcher else {}),
        **({"LAB_CLOCK": "adjustable"} if lab.clocks_move else {}),
    }


def _why_not_started(lab: Lab, error: subprocess.CalledProcessError) -> LabError:
    said = (error.stderr or b"").decode(errors="replace").strip()
    last = "\n  ".join(said.splitlines()[-4:])
    if "address already in use" in said or "port is already allocated" in said:
        return LabError(
            f"a host port is taken:\n  {last}", "free ports", "unset LAB_PORT_*: the lab then chooses free ports itself"
        )
    # One that is lost is the reason why others wait in vain.
    for service, container in sorted(lab.containers.items(), key=lambda each: not _is_lost(each[1])):
        health = container.attrs["State"].get("Health", {})
        if container.status != "running" or health.get("Status") not in (None, "healthy"):
            return _never_healthy(lab, service, container.status, health)
    return LabError(f"docker compose up failed:\n  {last}", "every container healthy", "./lab doctor")


def _never_healthy(lab: Lab, service: str, status: str, health: dict[str, Any]) -> LabError:
    checks = health.get("Log") or []
    said = checks[-1]["Output"].strip() if checks else "no health check answered"
    log = lab.logs(service, DEATH_LINES).strip().replace("\n", "\n  ")
    return LabError(
        f"{service} never got healthy ({status}; {said}). Its last log lines:\n  {log}",
        "serving and replicating",
        "./lab doctor",
    )


class signals_held:
    """Ctrl-C and SIGTERM wait while what they interrupted is taken away; a second one would leave half of it behind."""

    def __enter__(self) -> None:
        self._before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Ctrl-C and SIGTERM act at the end of the block: what is half made has no name yet by which to remove it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- finding ------------------------------------------------------------------------------------------------------


def find(name: str | None = None) -> Lab:
    """The running lab of that name, or the only one; LabError when there is none, or more than one to choose from."""
    labs = all_labs()
    if name:
        if name not in labs:
            raise LabError(f"no lab {name!r} is up", ", ".join(labs) or "a lab that is up", "./lab up")
        return labs[name]
    if not labs:
        raise LabError("no lab is up", "a lab that is up", "make lab-up")
    if len(labs) > 1:
        raise LabError(f"{len(labs)} labs are up", f"--lab with one of {', '.join(labs)}", "./lab status")
    return next(iter(labs.values()))


def all_labs() -> dict[str, Lab]:
    """All labs on this machine whose topology this checkout knows, whoever started them, by name."""
    found: dict[str, list[Container]] = {}
    for container in _containers():
        found.setdefault(container.labels[PROJECT], []).append(container)
    labs = {name: _lab_of(name, containers) for name, containers in sorted(found.items())}
    return {name: lab for name, lab in labs.items() if lab}


def projects() -> set[str]:
    """All projects with containers of a lab's, also of checkouts with other topologies."""
    return {container.labels[PROJECT] for container in _containers()}


def _lab_of(name: str, containers: list[Container]) -> Lab | None:
    topology = Path(containers[0].labels[CONFIG_FILES].partition(",")[0]).stem
    node = next((one for one in containers if ENGINE_LABEL in one.labels), None)
    if topology not in catalogue.topologies() or node is None:
        return None
    variables = dict(entry.split("=", 1) for entry in node.attrs["Config"]["Env"])
    lab = Lab(name, catalogue.topology(topology), node.labels[ENGINE_LABEL], variables["MYSQL_ROOT_PASSWORD"])
    lab.__dict__["containers"] = {container.labels[SERVICE]: container for container in containers}
    return lab


def _containers(project: str | None = None) -> list[Container]:
    labels = [LABEL, f"{PROJECT}={project}" if project else PROJECT]
    return docker_engine.client().containers.list(all=True, filters={"label": labels}, ignore_removed=True)


# -- removing -----------------------------------------------------------------------------------------------------


def remove(project: str) -> None:
    """Remove a project's containers (with their anonymous volumes), networks, volumes and state files."""
    client = docker_engine.client()
    # A server lets go of its file system, the array of its disks; only the last need no order.
    containers = _containers(project)
    for part in (None, "array", "disk"):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(remove_container, [one for one in containers if one.labels.get(PART) == part]))
    only = {"label": [LABEL, f"{PROJECT}={project}"]}
    for network in client.networks.list(filters=only):
        _unless_gone(network.remove)
    for volume in client.volumes.list(filters=only):
        remove_volume(volume)
    for kept in STATE.glob(f"{project}.*"):
        kept.unlink(missing_ok=True)


def remove_volume(volume: Volume) -> None:
    """Remove a volume; LabError where a container that is not the lab's holds it."""
    try:
        _unless_gone(volume.remove, force=True)
    except APIError as error:
        raise LabError(
            f"{volume.name} is in use by a container that is not the lab's",
            "nobody else",
            f"docker ps --all --filter volume={volume.name}",
        ) from error


def remove_container(container: Container) -> None:
    """Remove a container, with its anonymous volumes, whatever it is doing."""
    if container.labels.get(PART) == "array":
        # What it left in the host's /dev, it takes away itself.
        _unless_gone(container.stop, timeout=5)
    _unless_gone(container.remove, force=True, v=True)


def _unless_gone(act: Any, **options: Any) -> None:
    try:
        act(**options)
    except NotFound:
        pass
    except APIError as error:
        if "already in progress" not in str(error):
            raise


def owner() -> str:
    """This process, told apart from any other that ever had its number: PID and start time."""
    return f"{os.getpid()}-{psutil.Process().create_time():.2f}"


def _is_alive(mark: str) -> bool:
    pid, _, started = mark.partition("-")
    try:
        # A stepped clock moves every start time; the same number within a minute is the same process.
        return abs(psutil.Process(int(pid)).create_time() - float(started)) < 60
    except (psutil.Error, ValueError):
        return False


def left_behind() -> list[str]:
    """Projects that a process of the lab started and did not live to finish or take away, from whichever checkout."""
    client = docker_engine.client()
    marks, kept = {}, set()
    for container in _containers():
        project = container.labels[PROJECT]
        marks[project] = container.labels[LABEL]
        # Another checkout remembers its own labs in its own folder.
        checkout = Path(container.labels[WORKING_DIR]).parent
        if (checkout / STATE.relative_to(catalogue.ROOT) / f"{project}.json").exists():
            kept.add(project)
    for thing in (*client.networks.list(filters={"label": LABEL}), *client.volumes.list(filters={"label": LABEL})):
        labels = thing.attrs.get("Labels") or {}
        marks.setdefault(labels.get(PROJECT, ""), labels[LABEL])
    return sorted(
        project
        for project, mark in marks.items()
        if project and project not in kept and mark != "compose" and not _is_alive(mark)
    )


def sweep() -> list[str]:
    """Remove what killed processes left behind; the names of what was removed."""
    stale = left_behind()
    for project in stale:
        remove(project)
    orphans = [path for path in STATE.glob("*.env") if path.stem not in {c.labels.get(PROJECT) for c in _containers()}]
    for path in orphans:
        if not _is_alive(_owner_in(path)):
            for kept in STATE.glob(f"{path.stem}.*"):
                kept.unlink(missing_ok=True)
    return stale


def _owner_in(env_file: Path) -> str:
    lines: Iterable[str] = env_file.read_text().splitlines() if env_file.exists() else ()
    return next((line.removeprefix("LAB_OWNER=") for line in lines if line.startswith("LAB_OWNER=")), "")
