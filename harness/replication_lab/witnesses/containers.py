"""Was each start, stop or change of a container made by this process? The engine reports each of them."""

from replication_lab.model.core.observation import Happened, Observation
from replication_lab.world import clock
from replication_lab.world.docker.engine_events import EngineEvents
from replication_lab.world.docker.lab import Lab


class ContainerWitness:
    """The containers of a lab, observed from the subscription to the engine's events on."""

    obligation = "no other program started, stopped or changed a container of the lab"

    def __init__(self, lab: Lab) -> None:
        known = {str(each.id): service or str(each.name) for service, each in lab.containers.items()}
        restarting = {str(each.id) for each in lab.containers.values() if _restarts(each.attrs)}
        self._events, self._began = EngineEvents(lab.name, known, restarting), clock.timer()

    def observation(self, zero: float) -> Observation:
        """Return what was seen until now; `zero` is the moment of the clock's timer that times are counted from."""
        ended = clock.timer() if self._events.lost is None else self._events.lost
        return Observation(
            self.obligation,
            begin=round(self._began - zero, 3),
            end=round(ended - zero, 3),
            contrary=[
                Happened(round(each.at - zero, 3), f"{each.service}: {each.act}") for each in self._events.by_others()
            ],
        )

    def close(self) -> None:
        self._events.close()


def _restarts(attributes: dict) -> bool:
    return attributes["HostConfig"].get("RestartPolicy", {}).get("Name", "") not in ("", "no")
