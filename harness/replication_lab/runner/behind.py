"""A drill's clients at an endpoint, and what they meet behind it."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise

from replication_lab import replication
from replication_lab.lab import endpoints
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.observation import Happened
from replication_lab.model.drill.drill import Drill
from replication_lab.model.drill.evidence import ThroughEndpoint
from replication_lab.model.lab.endpoint import ENDPOINT_READS
from replication_lab.witnesses.sampled import Sampled
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.client import AnsweredBy, ApplicationClient
from replication_lab.world.mysql.server import Server

# How a line of HAProxy's log begins that tells a change of a server's state.
CHANGE = "Server "
# A server that does not answer takes no write either.
VALID_SECONDS = 0.5


class Behind:
    """The clients of one drill at the endpoint of its lab, from its making on."""

    def __init__(self, lab: Lab, drill: Drill):
        self._lab, found = lab, lab.endpoint
        if found is None:
            raise LabError(
                f"{lab.name} has no endpoint for drill {drill.name}", "a lab with an endpoint", "./lab drill"
            )
        self._endpoint = found
        settings = ", ".join(f"{name} {value}" for name, value in drill.endpoint_settings.items())
        self._name = f"{drill.endpoint} ({settings})" if settings else drill.endpoint
        self._servers = endpoints.servers_of(lab)
        self._strangers: dict[str, None] = {}
        self._readings: dict[str, list[tuple[float, bool]]] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Ask each server of a source and its replicas within the block, all the time, whether it takes writes."""
        if not replication.kind_of(self._lab.topology).follows_a_source:
            yield
            return
        self._readings = {node.name: [] for node in self._lab.topology.nodes}
        with closing(Sampled("", self._lab, dict.fromkeys(self._readings, self._read))):
            yield

    def _read(self, server: Server) -> list[str]:
        takes_writes = not server.value("SELECT @@GLOBAL.read_only")
        self._readings[server.name].append((clock.timer(), takes_writes))
        return []

    def client(self, name: str) -> ApplicationClient:
        """Return a client of the side of the endpoint that is written to, or of ENDPOINT_READS."""
        return ApplicationClient(self._server(reads=name == ENDPOINT_READS), self._note)

    def _server(self, reads: bool) -> Callable[[], Server]:
        # Its container is not restarted, so its port stays.
        found = self._endpoint.server(reads=reads)
        return lambda: found

    def _note(self, met: AnsweredBy) -> None:
        if not endpoints.is_through(self._endpoint, met):
            self._strangers[f"a client reached {met.server} from {met.client}, past the endpoint"] = None
        if met.server not in self._servers:
            self._strangers[f"a client reached {met.server} behind the endpoint, which is no node"] = None

    def met(self, zero: float) -> ThroughEndpoint:
        """Return what the clients met until now, and what the endpoint logged of the nodes after `zero`."""
        epoch = time.time() - clock.timer() + zero
        dated = ((round(at - epoch, 3), line) for at, line in self._endpoint.service.dated_logs())
        told = [
            Happened(at, line.partition(", check duration")[0])
            for at, line in dated
            if at >= 0 and line.startswith(CHANGE)
        ]
        writable = {node: found for node, own in self._readings.items() if (found := _spans(own, zero))}
        return ThroughEndpoint(self._name, self._servers, [*self._strangers], told, writable)


def _spans(readings: Sequence[tuple[float, bool]], zero: float) -> list[tuple[float, float]]:
    """Return from when until when a server took writes; a reading counts until the next, for VALID_SECONDS at most."""
    found: list[tuple[float, float]] = []
    for (at, takes_writes), (later, _) in pairwise([*readings, (math.inf, False)]):
        begin, end = round(at - zero, 3), round(min(later, at + VALID_SECONDS) - zero, 3)
        if takes_writes and end > 0:
            joined = found.pop()[0] if found and found[-1][1] == begin else max(begin, 0.0)
            found.append((joined, end))
    return found
