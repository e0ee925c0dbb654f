"""The endpoint of a running lab: a service that clients connect to in place of the nodes."""

import csv
import io
import socket
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from replication_lab.model.core.errors import as_lab_error
from replication_lab.model.lab.endpoint import EndpointKind
from replication_lab.world.docker.service import Service
from replication_lab.world.mysql.server import Server

ANSWER_SECONDS = 5


@dataclass(frozen=True)
class RunningEndpoint:
    """A lab's endpoint; `connect` makes the server at an address, with the accounts and the dialect of the nodes."""

    name: str
    kind: EndpointKind
    service: Service
    connect: Callable[[tuple[str, int]], Server]

    def server(self, *, reads: bool = False, near: bool = False) -> Server:
        """Return the endpoint as a server for applications, to write to or to read from.

        `near` is for measuring: by the container's own address if there is a route to it.
        """
        port = self.kind.reads if reads else self.kind.writes
        return self.connect(
            self.service.direct_address(port) if near else self.service.published(port)
        ).as_application()

    def is_client(self, host: str) -> bool:
        """Return whether a client's host, as a server sees it, is the endpoint: its address or its name."""
        return any(_is_of(each, host) for each in self.senders)

    @property
    def senders(self) -> Sequence[Service]:
        """The services from which a server sees the endpoint's connections."""
        return [self.service]

    def states(self) -> dict[str, dict[str, str]]:
        """Return what it says of each node now, {writes or reads: {node: UP or DOWN}}; LabError without an answer."""
        found: dict[str, dict[str, str]] = {"writes": {}, "reads": {}}
        for row in self._rows():
            if row["pxname"] in found and row["svname"] not in ("FRONTEND", "BACKEND"):
                # While checks fail and it is still up, it is "UP 2/3".
                found[row["pxname"]][row["svname"]] = row["status"].partition(" ")[0]
        return found

    def connections(self) -> int:
        """Return how many connections clients have opened until now to write."""
        return next(
            int(row["stot"]) for row in self._rows() if (row["pxname"], row["svname"]) == ("writes", "FRONTEND")
        )

    def _rows(self) -> list[dict[str, str]]:
        address = self.service.published(self.kind.states)
        with as_lab_error(
            OSError,
            f"the endpoint {self.name} does not tell the states of the nodes",
            "an answer of its page of statistics",
            f"./lab status --lab {self.service.project}",
        ):
            with closing(socket.create_connection(address, ANSWER_SECONDS)) as connection:
                connection.sendall(b"GET /;csv HTTP/1.0\r\n\r\n")
                answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")
        return list(csv.DictReader(io.StringIO(answer.partition("# ")[2])))


def _is_of(service: Service, host: str) -> bool:
    container = service.network()
    networks = container.attrs["NetworkSettings"]["Networks"].values()
    names = {str(container.name), *(alias for network in networks for alias in network.get("Aliases") or ())}
    # A server that resolves names gets that of the container with that of its network behind a dot.
    return host in service.addresses() or host.partition(".")[0] in names
