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
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import psutil
from docker.errors import APIError, NotFound
from docker.models.containers import Container

from harness.errors import LabError
from harness.topology import Topology
from harness.world import catalogue, docker_engine, images, sql
from harness.world.wire import Toxiproxy, Wire

LABEL, ENGINE_LABEL = "replication-lab", "replication-lab.engine"
PROJECT, SERVICE = "com.docker.compose.project", "com.docker.compose.service"
CONFIG_FILES = "com.docker.compose.project.config_files"
WORKING_DIR = "com.docker.compose.project.working_dir"
STATE = catalogue.RUNS / "labs"
WATCH_SECONDS = 0.5


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

    @property
    def env_file(self) -> Path:
        return STATE / f"{self.name}.env"

    @property
    def state_file(self) -> Path:
        return STATE / f"{self.name}.json"

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
        bindings = self.container(service).ports.get(f"{port}/tcp")
        if not bindings:
            raise LabError(f"{service} of {self.name} does not run", f"its port {port}", f"./lab status {self.name}")
        return bindings[0]["HostIp"], int(bindings[0]["HostPort"])

    def container(self, service: str) -> Container:
        if service not in self.containers:
            raise LabError(
                f"{self.name} has no container {service}", ", ".join(sorted(self.containers)), "./lab status"
            )
        return self.containers[service]

    def refresh(self) -> None:
        """Look again: ports and states change when a container is restarted."""
        for name in ("containers", "toxiproxy", "servers"):
            self.__dict__.pop(name, None)

    @cached_property
    def servers(self) -> dict[str, sql.Server]:
        return {node.name: self._server(node.name) for node in self.topology.nodes}

    def _server(self, node: str) -> sql.Server:
        dialect = sql.dialects()[catalogue.engines()[self.engine].dialect]
        return sql.Server(node, self.published(node, 3306), dialect, self.password)

    def server(self, node: str) -> sql.Server:
        self.topology.node(node)
        return self.servers[node]

    def wire(self, link: str) -> Wire:
        return Wire(link, self.toxiproxy, self.nearest("toxiproxy", self.topology.link(link).port))

    def nearest(self, service: str, port: int) -> tuple[str, int]:
        """The shortest way to a port: the container's own address where this machine routes to it, else the published.

        A published port of loopback goes through the engine's userland proxy, 0.2 to 0.4 ms a round trip: as much as
        a link without toxics. Where the engine runs in a machine of its own there is no other way.
        """
        published = self.published(service, port)
        networks = self.container(service).attrs["NetworkSettings"]["Networks"].values()
        for network in networks:
            if _is_reachable(network["IPAddress"], port):
                return network["IPAddress"], port
        return published

    def run(self, service: str, *command: str) -> str:
        """What a command in a container prints; LabError with its last lines when it fails."""
        answer = self.container(service).exec_run(list(command), demux=True)
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

    def memory_mib(self, service: str) -> float:
        """What a container's processes hold in memory, page cache left out, in MiB."""
        usage = docker_engine.client().api.stats(self.container(service).id, stream=False, one_shot=True)[
            "memory_stats"
        ]
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
                log = self.logs(service).strip().replace("\n", "\n  ")
                return f"{service} ended with status {code}. Its last log lines:\n  {log}"
        return ""

    def logs(self, service: str, lines: int = 12) -> str:
        return self.container(service).logs(tail=lines).decode(errors="replace")

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


def start(topology: Topology, engine: str, name: str, load: bool = False) -> Lab:
    """Stand a topology up and wait until every node is healthy; on any failure take it away again and say why."""
    from testcontainers.compose import DockerCompose  # only here: half a second that `lab status` need not wait

    # It tells a failed command at length; the error that is raised from it here says what a user can do.
    logging.getLogger("testcontainers").setLevel(logging.CRITICAL)
    lab = Lab(name, topology, engine, secrets.token_urlsafe(12))
    write_whole(lab.env_file, _environment(lab).encode())
    compose = DockerCompose(
        context=catalogue.ROOT,
        compose_file_name=str(catalogue.compose_file(topology.name)),
        env_file=str(lab.env_file),
        profiles=["load"] if load else None,
    )
    try:
        # An exported ENGINE would win over the file that is handed to Compose.
        with _exported(_settings(lab)), _ended_when_a_node_exits(lab):
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


@contextmanager
def _ended_when_a_node_exits(lab: Lab) -> Iterator[None]:
    """End `docker compose up` once a container of the lab has exited: it would wait a minute for its health."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(WATCH_SECONDS):
            if any(container.status in ("exited", "dead") for container in _containers(lab.name)):
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


def check_name(name: str) -> None:
    """Refuse what Compose would refuse as a project's name."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise LabError(f"{name!r} cannot be the name of a lab", "small letters, digits, - and _", "./lab up --help")


def _environment(lab: Lab) -> str:
    return "".join(f"{key}={value}\n" for key, value in _settings(lab).items())


@contextmanager
def _exported(settings: dict[str, str]) -> Iterator[None]:
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
    }


def _why_not_started(lab: Lab, error: subprocess.CalledProcessError) -> LabError:
    said = (error.stderr or b"").decode(errors="replace").strip()
    last = "\n  ".join(said.splitlines()[-4:])
    if "address already in use" in said or "port is already allocated" in said:
        return LabError(
            f"a host port is taken:\n  {last}", "free ports", "unset LAB_PORT_*: the lab then chooses free ports itself"
        )
    # One that has ended is the reason why others wait in vain.
    for service, container in sorted(lab.containers.items(), key=lambda each: each[1].status == "running"):
        health = container.attrs["State"].get("Health", {})
        if container.status != "running" or health.get("Status") not in (None, "healthy"):
            return _never_healthy(lab, service, container.status, health)
    return LabError(f"docker compose up failed:\n  {last}", "every container healthy", "./lab doctor")


def _never_healthy(lab: Lab, service: str, status: str, health: dict[str, Any]) -> LabError:
    checks = health.get("Log") or []
    said = checks[-1]["Output"].strip() if checks else "no health check answered"
    log = lab.logs(service).strip().replace("\n", "\n  ")
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


def _lab_of(name: str, containers: list[Container]) -> Lab | None:
    topology = Path(containers[0].labels[CONFIG_FILES]).stem
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
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(_remove_container, _containers(project)))
    only = {"label": [LABEL, f"{PROJECT}={project}"]}
    for network in client.networks.list(filters=only):
        _unless_gone(network.remove)
    for volume in client.volumes.list(filters=only):
        _unless_gone(volume.remove, force=True)
    for kept in (STATE / f"{project}.json", STATE / f"{project}.env"):
        kept.unlink(missing_ok=True)


def _remove_container(container: Container) -> None:
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
            path.unlink(missing_ok=True)
            path.with_suffix(".json").unlink(missing_ok=True)
    return stale


def _owner_in(env_file: Path) -> str:
    lines: Iterable[str] = env_file.read_text().splitlines() if env_file.exists() else ()
    return next((line.removeprefix("LAB_OWNER=") for line in lines if line.startswith("LAB_OWNER=")), "")
