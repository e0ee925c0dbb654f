"""The Docker SDK's client: it returns all that a command in a container prints, and says when the engine is gone."""

import re
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import docker
from docker.errors import APIError, DockerException, create_api_error_from_http_exception
from docker.models.containers import Container, ContainerCollection
from requests import HTTPError, PreparedRequest, RequestException, Response, Timeout

from replication_lab.model.core.errors import LabError
from replication_lab.world import requests_made

# A frame of the engine's answer: its stream (1 is standard output, 2 is standard error), and the bytes that follow.
FRAME = struct.Struct(">BxxxL")
OUT, ERR = 1, 2
# Requests that change a container or a network.
CHANGES = re.compile(r"/(containers|networks)/([^/?]+)(?:/([a-z]+))?(?:\?|$)")
RUN = "exec"
CUT_OFF = "the connection ended before the command did"
# What `docker compose` and other programs of Docker print if no engine answers.
UNANSWERED = ("Cannot connect to the Docker daemon", "error during connect", "Is the docker daemon running")


class EngineGone(LabError):
    """The Docker engine was there and does not answer any more: it ended, restarts, or its connection broke."""

    def __init__(self, reason: object, site: str = "") -> None:
        super().__init__(
            f"the Docker engine {f'at {site} ' if site else ''}does not answer any more: {reason}",
            "an engine that runs until the command ends",
            "start the engine, then ./lab clean, which removes what was left behind",
        )


@contextmanager
def unreachable_told(site: str = "") -> Iterator[None]:
    """Raise EngineGone for an error of the connection to the engine within the block."""
    try:
        yield
    except Timeout as error:
        raise EngineGone("no answer in time", site) from error
    except RequestException as error:
        if isinstance(error, HTTPError):
            raise
        raise EngineGone(_cause(error), site) from error


@contextmanager
def refusal_told(
    found: str, expected: str, next_step: str = "", kinds: type[DockerException] = APIError
) -> Iterator[None]:
    """Raise LabError for what the engine refuses within the block; its own words follow `found`.

    `kinds` are the errors that count as a refusal. Others are a defect of the lab, and no answer of a node.
    """
    try:
        yield
    except kinds as error:
        raise LabError(f"{found}: {getattr(error, 'explanation', '') or error}", expected, next_step) from error


def _cause(error: BaseException) -> object:
    """Return the system's error behind one of a library, such as `Connection refused`."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and found.strerror:
            return found.strerror
        found = found.__cause__ or found.__context__
    return error


def explained(error: BaseException) -> LabError | None:
    """Return the LabError for an unhandled error of the engine; None if the error is a defect of the lab."""
    if isinstance(error, APIError) and error.is_server_error():
        return LabError(
            f"the Docker engine failed: {error.explanation or error}", "a request that succeeds", "./lab doctor"
        )
    return None


class CommandEnd(NamedTuple):
    """What a command in a container came to; with `demux` the output is a pair: standard output, standard error."""

    exit_code: int
    output: Any


class WholeOutput(Container):
    """A container whose commands lose no output.

    The SDK reads the socket itself, and not the buffer in which the beginning of the answer may already be. In a busy
    program that part, or all of it, is then missing: https://github.com/docker/docker-py/issues/3332
    """

    def exec_run(  # type: ignore[override]  # it has only the options that the lab and its tests use
        self,
        cmd: str | list[str],
        *,
        user: str = "",
        environment: dict[str, str] | None = None,
        detach: bool = False,
        demux: bool = False,
    ) -> CommandEnd:
        """Run a command to its end, or only start it (`detach`); docker.errors.APIError if that is impossible."""
        api = self.client.api  # type: ignore[union-attr]  # None only if no client returned the container
        made = api.exec_create(self.id, cmd, user=user, environment=environment)["Id"]
        with requests_made.noted(requests_made.COMMAND, cmd if isinstance(cmd, str) else " ".join(cmd), made):
            if detach:
                return CommandEnd(0, api.exec_start(made, detach=True))
            # A command may take as long as it needs.
            address = f"{api.base_url}/v{api.api_version}/exec/{made}/start"
            answer = api.post(address, json={"Detach": False, "Tty": False}, timeout=None)
            try:
                answer.raise_for_status()
            except HTTPError as error:
                create_api_error_from_http_exception(error)
            frames = list(_frames(answer.content))
        code = api.exec_inspect(made)["ExitCode"]
        if code is None:
            raise EngineGone(CUT_OFF)
        streams = [b"".join(text for stream, text in frames if stream == wanted) for wanted in (OUT, ERR)]
        output = tuple(streams) if demux else b"".join(text for _, text in frames)
        return CommandEnd(code, output)


def _frames(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(content):
        head, at = content[at : at + FRAME.size], at + FRAME.size
        stream, length = FRAME.unpack(head) if len(head) == FRAME.size else (OUT, 1)
        text, at = content[at : at + length], at + length
        if len(text) < length:
            raise EngineGone(CUT_OFF)
        yield stream, text


class Containers(ContainerCollection):
    """Containers whose commands lose no output."""

    model = WholeOutput


class Api(docker.APIClient):
    """The SDK's requests; every error of their connection is raised as EngineGone, also while an answer is read."""

    site = ""

    def send(self, request: PreparedRequest, **options: Any) -> Response:
        """Send a request as the SDK does; one that changes something is remembered as this process's own."""
        # Else a company's authority in REQUESTS_CA_BUNDLE would replace that of the engine's certificate.
        options["verify"] = self.verify
        with unreachable_told(self.site), _noted(request):
            answer = super().send(request, **options)
        read = answer.iter_content

        def chunks(*size: Any, **how: Any) -> Iterator[Any]:
            with unreachable_told(self.site):
                yield from read(*size, **how)

        # The SDK takes an answer's content, its lines and its chunks from there.
        answer.iter_content = chunks  # type: ignore[method-assign]
        return answer


def _noted(request: PreparedRequest) -> AbstractContextManager[None]:
    found = CHANGES.search(request.path_url)
    # A command has an ID of its own.
    if request.method == "GET" or found is None or found[3] == RUN:
        return nullcontext()
    return requests_made.noted(found[3] or str(request.method).lower(), found[2])


class EngineClient(docker.DockerClient):
    """The SDK's client with such containers and such requests."""

    api: Api

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.api = Api(*arguments, **options)

    @property
    def site(self) -> str:
        """The endpoint of the engine, if it is another site than the command's own engine; else empty."""
        return self.api.site

    @property
    def containers(self) -> Containers:
        """The containers of the engine."""
        return Containers(client=self)
