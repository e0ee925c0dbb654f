"""Is the whole output of a command in a container returned, however late this process reads the answer?"""

import _socket
import json
import socket
import struct
import subprocess
import threading
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingMixIn, UnixStreamServer
from types import SimpleNamespace
from typing import ClassVar

import docker
import pytest
import requests
from docker.errors import APIError, NotFound
from replication_lab.world.docker import compose_call, not_started
from replication_lab.world.docker.client import UNANSWERED, EngineClient, EngineGone, explained
from requests import ReadTimeout


def frame(stream, text):
    return struct.pack(">BxxxL", stream, len(text)) + text


SAID = frame(1, b"first\n") + frame(2, b"trouble\n") + frame(1, b"last\n")


class OneCommand(BaseHTTPRequestHandler):
    """An engine with one container, whose command has ended before its answer is read."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[dict]] = []
    # What the command came to, and what of its output is sent.
    code, said = 3, SAID

    def address_string(self):
        return "a client"

    def log_message(self, *_):
        """Say nothing."""

    def do_GET(self):
        if self.path.endswith("/logs?stderr=1&stdout=1&timestamps=0&follow=0&tail=all"):
            # An engine that ends while it answers.
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + SAID)
            self.close_connection = True
        elif self.path.endswith("/failing/json"):
            self._answer({"message": "no space left on device"}, 500)
        else:
            self._answer({"Id": "one", "ExitCode": self.code, "Config": {"Tty": False}})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/gone/exec"):
            self._answer({"message": "No such container: gone"}, 404)
        elif self.path.endswith("/start"):
            # As the engine does: no length, and the connection ends with the output.
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n" + self.said)
            self.close_connection = True
        else:
            self.asked.append(asked)
            self._answer({"Id": "exec"})

    def _answer(self, data, status=200):
        text = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


class Server(ThreadingMixIn, UnixStreamServer):
    """Answers each connection in a thread of its own, since the client keeps one open."""

    daemon_threads, block_on_close = True, False


@pytest.fixture
def client_of(tmp_path, monkeypatch):
    """Make a client of that engine."""
    monkeypatch.setattr(socket.socket, "connect", _socket.socket.connect)
    with Server(str(tmp_path / "engine"), OneCommand) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield lambda kind: kind(base_url=f"unix://{tmp_path}/engine", version="1.45")
        server.shutdown()


def test_all_that_a_command_printed_is_returned(client_of):
    """As one text, or by stream; with its exit status."""
    container = client_of(EngineClient).containers.get("one")

    assert container.exec_run("a b") == (3, b"first\ntrouble\nlast\n")
    assert container.exec_run(["a"], user="root", environment={"A": "1"}, demux=True) == (
        3,
        (b"first\nlast\n", b"trouble\n"),
    )
    assert [asked["Cmd"] for asked in OneCommand.asked] == [["a", "b"], ["a"]]
    assert (OneCommand.asked[1]["User"], OneCommand.asked[1]["Env"]) == ("root", ["A=1"])


def test_an_error_of_the_engine_is_raised(client_of):
    """A container that is gone, as by the SDK itself."""
    container = client_of(EngineClient).containers.get("one")
    container.attrs["Id"] = "gone"

    with pytest.raises(NotFound, match="No such container"):
        container.exec_run(["a"])


def test_the_sdk_itself_loses_output(client_of):
    """The reason for a client of our own: remove it once this fails."""
    assert client_of(docker.DockerClient).containers.get("one").exec_run(["a"]).output == b""


# --- an engine that is gone -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "said"), [(None, SAID), (3, SAID[:-30])])
def test_a_command_whose_connection_ends_before_it_is_not_taken_for_a_whole_one(client_of, monkeypatch, code, said):
    """It goes on in its container, or its output is truncated."""
    monkeypatch.setattr(OneCommand, "code", code)
    monkeypatch.setattr(OneCommand, "said", said)
    container = client_of(EngineClient).containers.get("one")

    with pytest.raises(EngineGone, match="the connection ended before the command did"):
        container.exec_run(["a"])


def test_an_engine_that_ends_while_it_answers_is_gone(client_of):
    """The answer is shorter than the engine said."""
    container = client_of(EngineClient).containers.get("one")

    with pytest.raises(EngineGone, match="the Docker engine does not answer any more"):
        container.logs()


def test_an_engine_whose_socket_refuses_is_gone(client_of, tmp_path):
    """The error names the system's reason, and not a library's chain of objects."""
    client = client_of(EngineClient)
    client.ping()
    (tmp_path / "engine").unlink()
    client.api.close()

    with pytest.raises(EngineGone) as gone:
        client.containers.get("one")
    assert gone.value.found == "the Docker engine does not answer any more: No such file or directory"


def test_an_engine_that_is_silent_is_gone(client_of, monkeypatch):
    """A request has a limit of time."""

    def silent(*_, **__):
        raise ReadTimeout("read timed out")

    client = client_of(EngineClient)
    monkeypatch.setattr(requests.Session, "send", silent)

    with pytest.raises(EngineGone, match="no answer in time"):
        client.ping()


def test_an_engine_that_fails_is_told_in_words_and_a_wrong_request_is_a_defect(client_of):
    """A full disk of the engine's is no fault of the lab's."""
    with pytest.raises(APIError) as failed:
        client_of(EngineClient).containers.get("failing")

    assert "the Docker engine failed: no space left on device" in str(explained(failed.value))
    assert explained(NotFound("no such container")) is None and explained(KeyError("x")) is None


@pytest.mark.parametrize("said", UNANSWERED)
def test_a_program_of_docker_that_finds_no_engine_says_the_same(monkeypatch, said):
    """`docker compose` of an attached project, and that of a lab."""
    text = f"unable to get image: {said} at unix:///var/run/docker.sock"
    ended = subprocess.CompletedProcess([], 1, "", text)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)

    with pytest.raises(EngineGone, match=said):
        compose_call.run([], ["up"])
    assert isinstance(not_started.why_not_started(SimpleNamespace(refresh=lambda: None), text), EngineGone)
