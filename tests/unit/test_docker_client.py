"""Is the whole output of a command in a container returned, however late this process reads the answer?"""

import _socket
import json
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import ClassVar

import docker
import pytest
from docker.errors import NotFound
from replication_lab.world.docker.client import Client


def frame(stream, text):
    return struct.pack(">BxxxL", stream, len(text)) + text


SAID = frame(1, b"first\n") + frame(2, b"trouble\n") + frame(1, b"last\n")


class OneCommand(BaseHTTPRequestHandler):
    """An engine with one container, whose command has ended before its answer is read."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[dict]] = []

    def address_string(self):
        return "a client"

    def log_message(self, *_):
        """Say nothing."""

    def do_GET(self):
        self._answer({"Id": "one", "ExitCode": 3, "Config": {"Tty": False}})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/gone/exec"):
            self._answer({"message": "No such container: gone"}, 404)
        elif self.path.endswith("/start"):
            # As the engine does: no length, and the connection ends with the output.
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n" + SAID)
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
    container = client_of(Client).containers.get("one")

    assert container.exec_run("a b") == (3, b"first\ntrouble\nlast\n")
    assert container.exec_run(["a"], user="root", environment={"A": "1"}, demux=True) == (
        3,
        (b"first\nlast\n", b"trouble\n"),
    )
    assert [asked["Cmd"] for asked in OneCommand.asked] == [["a", "b"], ["a"]]
    assert (OneCommand.asked[1]["User"], OneCommand.asked[1]["Env"]) == ("root", ["A=1"])


def test_an_error_of_the_engine_is_raised(client_of):
    """A container that is gone, as by the SDK itself."""
    container = client_of(Client).containers.get("one")
    container.attrs["Id"] = "gone"

    with pytest.raises(NotFound, match="No such container"):
        container.exec_run(["a"])


def test_the_sdk_itself_loses_output(client_of):
    """The reason for a client of our own: remove it once this fails."""
    assert client_of(docker.DockerClient).containers.get("one").exec_run(["a"]).output == b""
