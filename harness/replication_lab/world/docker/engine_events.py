"""What the engine says that it does to containers, as it happens: one subscription, which misses nothing."""

import threading
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from docker.errors import DockerException
from docker.types import CancellableStream

from replication_lab.model.core.errors import LabError
from replication_lab.world import clock, requests_made
from replication_lab.world.docker import labels, sites
from replication_lab.world.docker.client import EngineClient

CAUSES = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, frozenset[str]])
# How the engine reports that a command was started in a container; the command follows.
RUN = "exec_start: "
COMMAND = "command"
REPORTED = {COMMAND, *(act for acts in CAUSES.values() for act in acts)}
# A new container, and how its settings name the one whose network it shares.
CREATED, SHARES = "create", "container:"
# A process that ends by itself is what a server did, and no interference.
ENDED = "die"
# The longest part of a command that a message shows, in characters.
SHOWN = 80
# What the engine does on its own within some seconds: it connects a container that starts, and disconnects one that
# ended.
FOLLOWS = {"connect": "start", "disconnect": ENDED}
FOLLOWS_SECONDS = 5.0


@dataclass(frozen=True)
class EngineEvent:
    """An act of the engine on a container of a service, at a moment of the clock's timer.

    `time` is the engine's own, and tells one act from another. `command` and `number` are those of a command that was
    started in the container.
    """

    at: float
    time: int
    act: str
    container: str
    service: str
    command: str = ""
    number: str = ""

    def __str__(self) -> str:
        return f"{self.service}: {self.act}" + (f" {self.command[:SHOWN]!r}" if self.command else "")


class EngineEvents:
    """The acts on a project's containers since it was made; `lost` is the moment from which on nothing was heard."""

    def __init__(self, project: str, services: Mapping[str, str], restarting: Set[str]) -> None:
        """Subscribe; `services` are the names of containers by their IDs, `restarting` those with a restart policy."""
        self._project, self._services, self._restarting = project, dict(services), restarting
        self._heard: list[EngineEvent] = []
        self.lost: float | None = None
        only = {"type": ["container", "network"]}
        streams = [(each, each.events(decode=True, filters=only)) for each in sites.clients(project)]
        self._streams = [stream for _, stream in streams]
        self._threads = [
            threading.Thread(target=self._listen, args=each, name="engine events", daemon=True) for each in streams
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self, client: EngineClient, stream: CancellableStream) -> None:
        try:
            with suppress(DockerException, LabError, OSError, ValueError, AttributeError):
                for event in stream:
                    self._hear(event, client)
        finally:
            # Also after an error that is not expected: from then on nothing is known.
            self.lost = clock.timer()

    def _hear(self, event: dict[str, Any], client: EngineClient) -> None:
        about = event.get("Actor", {}).get("Attributes", {})
        container = about.get("container", "") if event.get("Type") == "network" else event["Actor"]["ID"]
        if about.get(labels.PROJECT) == self._project and labels.SERVICE in about:
            self._services.setdefault(container, about[labels.SERVICE])
        act = event.get("Action", "")
        if act == CREATED and container not in self._services and (whose := self._whose_network(container, client)):
            self._services[container] = f"a container in the network of {whose}"
        command = act.removeprefix(RUN) if act.startswith(RUN) else ""
        act = COMMAND if command else act
        if container in self._services and act in (*REPORTED, ENDED):
            number = about.get("execID", "")
            time = event.get("timeNano", len(self._heard))
            heard = EngineEvent(clock.timer(), time, act, container, self._services[container], command, number)
            self._heard.append(heard)

    def _whose_network(self, container: str, client: EngineClient) -> str:
        """Return the service whose network a new container shares: it may change what happens to packets there."""
        with suppress(DockerException, LabError, OSError, AttributeError, KeyError):
            mode = client.api.inspect_container(container)["HostConfig"]["NetworkMode"]
            return self._services.get(mode.removeprefix(SHARES), "") if mode.startswith(SHARES) else ""
        return ""

    def by_others(self) -> list[EngineEvent]:
        """Return the acts that no request of this process caused, nor the engine by itself, in their order."""
        requests, commands, others = requests_made.made(), requests_made.commands(), list[EngineEvent]()
        for event in list(self._heard):
            if event.act == ENDED or event.number in commands:
                continue
            cause = next((one for one in requests if _may_cause(one, event)), None)
            if (
                cause is not None
                and cause.kind != requests_made.EXCHANGE
                and not (event.act == "kill" and cause.kind != "kill")
            ):
                # One request has each effect once, also for a later subscription; but a stop may send two signals.
                cause.caused[event.act] = event.time
            if cause is None and not self._is_natural(event):
                others.append(event)
        return others

    def _is_natural(self, event: EngineEvent) -> bool:
        follows = any(
            other.act == FOLLOWS.get(event.act) and abs(other.at - event.at) <= FOLLOWS_SECONDS
            for other in list(self._heard)
            if other.container == event.container
        )
        return follows or (event.act == "start" and event.container in self._restarting and self._ended_alone(event))

    def _ended_alone(self, event: EngineEvent) -> bool:
        """Return whether a container had ended without a signal of the engine before this event."""
        before = [one.act for one in list(self._heard) if one.container == event.container and one.at < event.at]
        ends = [act for act in before if act in (ENDED, "kill", "start")]
        return ends[-1:] == [ENDED] and ends[-2:-1] != ["kill"]

    def close(self) -> None:
        """End the subscription."""
        for stream, thread in zip(self._streams, self._threads, strict=True):
            with suppress(DockerException, OSError, AttributeError):
                stream.close()
            thread.join(1)


def _may_cause(made: requests_made.OwnRequest, event: EngineEvent) -> bool:
    # A request to a network names the container in its body.
    concerned = made.kind in FOLLOWS or event.container.startswith(made.what)
    if made.kind == requests_made.EXCHANGE:
        # Compose makes several requests, and names a container that has not been known until then.
        return event.service == made.what and event.act in CAUSES[made.kind] and made.may_cause(event.at)
    is_effect = concerned and event.act in CAUSES.get(made.kind, ()) and made.may_cause(event.at)
    return is_effect and made.caused.get(event.act, event.time) == event.time
