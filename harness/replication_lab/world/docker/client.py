"""The Docker SDK's client, which returns all that a command in a container prints."""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import docker
from docker.errors import create_api_error_from_http_exception
from docker.models.containers import Container, ContainerCollection
from requests import HTTPError, Response

# A frame of the engine's answer: its stream (1 is standard output, 2 is standard error), and the bytes that follow.
FRAME = struct.Struct(">BxxxL")
OUT, ERR = 1, 2


class Ended(NamedTuple):
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
    ) -> Ended:
        """Run a command to its end, or only start it (`detach`); docker.errors.APIError if that is impossible."""
        api = self.client.api  # type: ignore[union-attr]  # None only if no client returned the container
        made = api.exec_create(self.id, cmd, user=user, environment=environment)["Id"]
        if detach:
            return Ended(0, api.exec_start(made, detach=True))
        # A command may take as long as it needs.
        answer = api.post(
            f"{api.base_url}/v{api.api_version}/exec/{made}/start", json={"Detach": False, "Tty": False}, timeout=None
        )
        frames = list(_frames(_content(answer)))
        streams = [b"".join(text for stream, text in frames if stream == wanted) for wanted in (OUT, ERR)]
        output = tuple(streams) if demux else b"".join(text for _, text in frames)
        return Ended(api.exec_inspect(made)["ExitCode"], output)


def _content(answer: Response) -> bytes:
    try:
        answer.raise_for_status()
    except HTTPError as error:
        create_api_error_from_http_exception(error)
    return answer.content


def _frames(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(content):
        stream, length = FRAME.unpack_from(content, at)
        at += FRAME.size
        yield stream, content[at : at + length]
        at += length


class Containers(ContainerCollection):
    """Containers whose commands lose no output."""

    model = WholeOutput


class Client(docker.DockerClient):
    """The SDK's client with such containers."""

    @property
    def containers(self) -> Containers:
        """The containers of the engine."""
        return Containers(client=self)
