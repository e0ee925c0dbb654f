"""A drill's clients at an endpoint, and what they meet behind it."""

import time

from replication_lab.lab import endpoints
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.observation import Happened
from replication_lab.model.drill.drill import Drill
from replication_lab.model.drill.evidence import ThroughEndpoint
from replication_lab.model.lab.companion import shown
from replication_lab.model.lab.endpoint import ENDPOINT_READS
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.client import AnsweredBy, ApplicationClient

# How a line of HAProxy's log begins that tells a change of a server's state.
CHANGE = "Server "


class Behind:
    """The clients of one drill at the endpoint of its lab, from its making on."""

    def __init__(self, lab: Lab, drill: Drill):
        self._lab, found = lab, lab.endpoint
        if found is None:
            raise LabError(
                f"{lab.name} has no endpoint for drill {drill.name}", "a lab with an endpoint", "./lab drill"
            )
        self._endpoint = found
        self._name = shown(drill.endpoint, drill.endpoint_settings)
        self._servers = endpoints.servers_of(lab)
        self._strangers: dict[str, None] = {}

    def client(self, name: str) -> ApplicationClient:
        """Return a client of the side of the endpoint that is written to, or of ENDPOINT_READS."""
        # Its container is not restarted, so its port stays.
        found = self._endpoint.server(reads=name == ENDPOINT_READS)
        return ApplicationClient(lambda: found, self._note)

    def _note(self, met: AnsweredBy) -> None:
        if not self._endpoint.is_client(met.client):
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
        return ThroughEndpoint(self._name, self._servers, [*self._strangers], told)
