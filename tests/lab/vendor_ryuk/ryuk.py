"""Do what Testcontainers' Ryuk does, by its protocol: its own image cannot be pulled everywhere, nor its Go module.

Clients connect to port 8080 and send lines such as "label=KEY=VALUE", each answered by "ACK". Once no client is
connected for RYUK_RECONNECTION_TIMEOUT, the containers, networks and volumes with these labels are removed.
"""

import asyncio
import json
import os
import socket
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

FIRST_SECONDS = 60
RECONNECTION_SECONDS = float(os.environ.get("RYUK_RECONNECTION_TIMEOUT", "10s").removesuffix("s"))


class Engine(HTTPConnection):
    """The Docker engine at its socket."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/var/run/docker.sock")


def asked(method: str, path: str) -> Any:
    """Return the engine's answer; None if it has no content."""
    engine = Engine("engine")
    engine.request(method, path)
    return json.loads(engine.getresponse().read() or b"null")


def remove_all(label: str) -> None:
    """Remove containers before the networks and volumes that they use."""
    filters = "filters=" + quote(json.dumps({"label": [label]}))
    for container in asked("GET", f"/containers/json?all=1&{filters}"):
        asked("DELETE", f"/containers/{container['Id']}?v=1&force=1")
    for network in asked("GET", f"/networks?{filters}"):
        asked("DELETE", f"/networks/{network['Id']}")
    for volume in asked("GET", f"/volumes?{filters}")["Volumes"] or []:
        asked("DELETE", f"/volumes/{volume['Name']}?force=1")


async def main() -> None:
    labels, clients, changed = set[str](), set[asyncio.StreamWriter](), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.add(writer)
        changed.set()
        try:
            while line := (await reader.readline()).decode().strip():
                labels.add(line.removeprefix("label="))
                writer.write(b"ACK\n")
        except ConnectionError:
            # A client that is killed may reset its connection.
            pass
        clients.discard(writer)
        writer.close()
        changed.set()

    await asyncio.start_server(serve, "0.0.0.0", 8080)
    print("Started!")
    seconds = FIRST_SECONDS
    while clients or not await _is_quiet(changed, seconds):
        changed.clear()
        if clients:
            await changed.wait()
        seconds = RECONNECTION_SECONDS
    for label in labels:
        remove_all(label)


async def _is_quiet(changed: asyncio.Event, seconds: float) -> bool:
    """Return whether no client comes or goes for that long."""
    changed.clear()
    try:
        await asyncio.wait_for(changed.wait(), seconds)
    except TimeoutError:
        return True
    return False


asyncio.run(main())
