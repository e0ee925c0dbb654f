"""A process beside the nodes of a lab, in which clients and probes run where the engine is on another machine.

There neither published ports nor the way to that machine are part of what they measure. The process is the only one of
a container in the lab's network, on the CPUs of the load; it ends with this process, however it ends.
"""

import functools
import io
import itertools
import pickle
import queue
import subprocess
import threading
import uuid
import weakref
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec

from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.world import clock
from replication_lab.world.client_place import HERE, ClientPlace
from replication_lab.world.docker import engine, images, labels, machine, site_images
from replication_lab.world.docker.containers import engine_of
from replication_lab.world.docker.service import Service
from replication_lab.world.worker import Request, WorkerAnswer

Made = TypeVar("Made")
IMAGE = "clients"
CONTAINER, HOST = "container", "host"
PLACES = (CONTAINER, HOST)
LOAD = "load"
# No name of a lab.
MACHINE = "on the engine's machine"
# The parts of the package that clients and probes are made of.
ROOMS = ("model", "world", "workloads", "probes")
# Reads the length of an archive and the archive, and runs the worker in it.
START = (
    "import sys, tempfile; read = sys.stdin.buffer; code = tempfile.NamedTemporaryFile(suffix='.zip'); "
    "code.write(read.read(int(read.readline()))); code.flush(); sys.path.insert(0, code.name); "
    "from replication_lab.world.worker import main; main()"
)
OPTIONS = (
    *("--rm", "--interactive", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--log-driver", "none"),
    # The name of a container that does not run is unknown at once.
    *("--env", "RES_OPTIONS=timeout:1 attempts:1", "--entrypoint", "python3"),
)
READINGS_OF_CLOCK = 7


class RemoteWorker(ClientPlace):
    """A running worker in a container; `options` are those of `docker run`, `where` is its place in words.

    `site` is the endpoint of its engine, empty for the command's own.
    """

    def __init__(self, where: str, *options: str, site: str = ""):
        images.ensure([IMAGE])
        site_images.bring(site, [images.PREFIX + IMAGE])
        self._where, self.numbers = where, itertools.count(1)
        self._waiting: dict[int, queue.SimpleQueue[WorkerAnswer | None]] = {}
        self._guard = threading.Lock()
        self._process = subprocess.Popen(
            [*engine.command_for(site), "run", *OPTIONS, *options, images.PREFIX + IMAGE, "-c", START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C does not end it before what needs it.
            start_new_session=True,
        )
        weakref.finalize(self, _end, self._process)
        threading.Thread(target=self._listen, daemon=True, name=f"worker {where}").start()
        code = _code()
        self._send(b"%d\n" % len(code) + code)

    @property
    def ahead(self) -> float:
        """By how much its timer is ahead of this process's now: by the reading that took the shortest time."""
        found = []
        for _ in range(READINGS_OF_CLOCK):
            began = clock.timer()
            there = self.call(clock.timer)
            ended = clock.timer()
            found.append((ended - began, there - (began + ended) / 2))
        return min(found)[1]

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def make(self, kind: Callable[..., Made], *arguments: Any) -> Made:
        number = next(self.numbers)
        self.ask(Request(number, kind, arguments, keep=True))
        return Elsewhere(self, kind, number)  # type: ignore[return-value]  # it has the methods of the kind

    def call(self, what: Callable[..., Made], *arguments: Any) -> Made:
        """Call a function there; its result is of the type that it is annotated with."""
        return _decoded(self.ask(Request(next(self.numbers), what, arguments)), what)

    def ask(self, request: Request, write: Callable[[bytes], object] | None = None) -> msgspec.Raw:
        """Return the value that a request ended with; LabError for its error, or if the worker has ended."""
        answers: queue.SimpleQueue[WorkerAnswer | None] = queue.SimpleQueue()
        self._waiting[request.number] = answers
        try:
            self._send(pickle.dumps(request))
            while True:
                answer = None if self.has_ended and answers.empty() else answers.get()
                if answer is None:
                    raise self._ended()
                if answer.line is not None and write:
                    write(answer.line.encode())
                    continue
                if answer.error:
                    raise LabError(*answer.error)
                return answer.value
        finally:
            del self._waiting[request.number]

    def _send(self, data: bytes) -> None:
        try:
            with self._guard:
                assert self._process.stdin
                self._process.stdin.write(data)
                self._process.stdin.flush()
        except OSError as error:
            raise self._ended() from error

    def _listen(self) -> None:
        assert self._process.stdout
        decoder = msgspec.json.Decoder(WorkerAnswer)
        with suppress(msgspec.DecodeError):
            for line in self._process.stdout:
                answer = decoder.decode(line)
                if waits := self._waiting.get(answer.number):
                    waits.put(answer)
        _end(self._process)
        for waits in list(self._waiting.values()):
            waits.put(None)

    def _ended(self) -> LabError:
        # What it had to say was said before its standard input was closed.
        _end(self._process)
        said = self._process.stderr.read().decode(errors="replace") if self._process.stderr else ""
        last = said.strip().rpartition("\n")[2]
        return LabError(
            f"the clients' container {self._where} has ended{f': {last}' if last else ''}",
            "a container that runs until the command ends",
            "./lab status; or run the clients on this machine: --clients-from host",
        )


class Elsewhere:
    """An object in a worker, with the methods of its kind."""

    def __init__(self, at: RemoteWorker, kind: Callable[..., Any], number: int):
        self._at, self._kind, self._number = at, kind, number

    def __getattr__(self, method: str) -> Callable[..., Any]:
        what = getattr(self._kind, method)

        def call(*arguments: Any, write: Callable[[bytes], object] | None = None) -> Any:
            request = Request(next(self._at.numbers), method, arguments, of=self._number, writes=write is not None)
            return _decoded(self._at.ask(request, write), what)

        return call


def _decoded(answer: msgspec.Raw, what: Callable[..., Any]) -> Any:
    """Return an answer as the type that a function is annotated with; LabError if it is none."""
    with as_lab_error(
        msgspec.DecodeError, "the clients' container gave an answer that cannot be read", "the lab's own code"
    ):
        return msgspec.json.decode(answer, type=get_type_hints(what)["return"])


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the client; the engine then closes the worker's standard input."""
    process.kill()
    process.wait()


@functools.cache
def _code() -> bytes:
    """Return the package's code that a worker may need, as an archive that Python imports from."""
    root, packed = Path(__file__).parents[2], io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        folders = {Path(root.name)}
        # The package's own one needs what loads the public names when they are used.
        archive.writestr(f"{root.name}/__init__.py", b"")
        for path in (path for room in ROOMS for path in (root / room).rglob("*.py")):
            name = path.relative_to(root.parent)
            folders |= set(name.parents) - {Path(".")}
            archive.writestr(str(name), path.read_bytes())
        for folder in sorted(folders):
            # Python finds a folder without an __init__.py by its own entry only.
            archive.writestr(f"{folder}/", b"")
    return packed.getvalue()


# The place that the user chose.
_chosen: list[str] = []
_guard = threading.RLock()
# By the lab and the endpoint of its site.
_workers: dict[tuple[str, str], RemoteWorker] = {}


def choose(place: str | None) -> None:
    """Let the clients of this process run in the container, or on its own machine; None for the default."""
    _chosen[:] = [place] if place else []


def from_container() -> bool:
    """Return whether clients run beside the nodes: as was chosen, or where the engine is on another machine."""
    return _chosen == [CONTAINER] if _chosen else bool(machine.facts().elsewhere)


def described() -> dict[str, str]:
    """Return what a record says of the place of clients; nothing for this process on the engine's machine."""
    place = CONTAINER if from_container() else HOST
    return {"clients_from": place} if place == CONTAINER or machine.facts().elsewhere else {}


def of(near: Service) -> RemoteWorker:
    """Return the worker in the network of a lab's service, on the CPUs of its load; it is started if none runs."""
    project, site = near.project, near.site
    with _guard:
        if (project, site) not in _workers or _workers[project, site].has_ended:
            _workers[project, site] = RemoteWorker(f"of {project}", *_options(near), site=site)
            near.containers.refresh()
        return _workers[project, site]


def on_machine(site: str = "") -> ClientPlace:
    """Return a place on the machine of a site's engine, on all of its CPUs; by default of the command's engine.

    It is this process, if that engine runs here.
    """
    if not site and not machine.facts().elsewhere:
        return HERE
    with _guard:
        if (MACHINE, site) not in _workers or _workers[MACHINE, site].has_ended:
            name = f"replication-lab-reach-{uuid.uuid4().hex[:12]}"
            _workers[MACHINE, site] = RemoteWorker(MACHINE, "--name", name, site=site)
        return _workers[MACHINE, site]


def _options(near: Service) -> Sequence[str]:
    every = near.containers.by_service
    load = every.get(LOAD)
    # That of another site has the CPUs of another machine.
    model = load if load and engine_of(load).site == near.site else near.container
    model.reload()
    name = f"{IMAGE}-{uuid.uuid4().hex[:6]}"
    marks = labels.of_beside(near.project, model, name)
    network = next(iter(near.network().attrs["NetworkSettings"]["Networks"]))
    return (
        *("--name", f"{near.project}-{name}", "--network", network),
        *("--cpuset-cpus", model.attrs["HostConfig"]["CpusetCpus"]),
        *(word for mark, text in marks.items() for word in ("--label", f"{mark}={text}")),
    )
