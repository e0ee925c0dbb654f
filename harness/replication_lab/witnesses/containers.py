"""Was each act on a container made by this process? The engine reports each of them, and each command that is run."""

from typing import Any

from replication_lab.model.core.observation import Happened, Observation
from replication_lab.probes.node_resources import LOOKS
from replication_lab.world import clock
from replication_lab.world.docker.engine_events import EngineEvent, EngineEvents
from replication_lab.world.docker.lab import Lab

# What `lab watch`, `lab status` and `lab disk list` run from another terminal: it reads little, and changes nothing.
READS = (
    "spindle stats",
    "spindle settings",
    "array status",
    "array progress",
    "array devices",
    "guest resource status",
    "guest resource states",
    "guest resource settings",
    "guest cluster status",
    f"sh -c {LOOKS}",
    f"guest sh -c {LOOKS}",
    "printenv ",
    "cat /proc/",
)


class ContainerWitness:
    """The containers of a lab, observed from the subscription to the engine's events on."""

    obligation = "no other program started, stopped or changed a container of the lab, or ran a command in it"

    def __init__(self, lab: Lab) -> None:
        known = {str(each.id): service or str(each.name) for service, each in lab.containers.items()}
        restarting = {str(each.id) for each in lab.containers.values() if _restarts(each.attrs)}
        self._checks = {service: _health_check(each.attrs) for service, each in lab.containers.items()}
        self._events, self._began = EngineEvents(lab.name, known, restarting), clock.timer()

    def observation(self, zero: float) -> Observation:
        """Return what was seen until now; `zero` is the moment of the clock's timer that times are counted from."""
        ended = clock.timer() if self._events.lost is None else self._events.lost
        return Observation(
            self.obligation,
            begin=round(self._began - zero, 3),
            end=round(ended - zero, 3),
            contrary=[
                Happened(round(each.at - zero, 3), str(each))
                for each in self._events.by_others()
                if not self._is_expected(each)
            ],
        )

    def _is_expected(self, event: EngineEvent) -> bool:
        """Return whether a command is the health check of its container, or only reads."""
        check = self._checks.get(event.service)
        return bool(event.command) and (
            event.command.startswith(READS) or (check is not None and event.command.endswith(check))
        )

    def close(self) -> None:
        self._events.close()


def _restarts(attributes: dict[str, Any]) -> bool:
    return attributes["HostConfig"].get("RestartPolicy", {}).get("Name", "") not in ("", "no")


def _health_check(attributes: dict[str, Any]) -> str | None:
    """Return the command by which the engine checks a container's health; a shell's name may come before it."""
    _, *words = (attributes["Config"].get("Healthcheck") or {}).get("Test") or ["NONE"]
    return " ".join(words) if words else None
