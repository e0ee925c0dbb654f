"""Was each act on a container made by this process? The engine reports each of them, and each command that is run."""

import re
from typing import Any

from replication_lab.model.core.observation import Observation
from replication_lab.probes.node_resources import LOOKS
from replication_lab.witnesses import packet_rules, replicated_disk
from replication_lab.world import clock
from replication_lab.world.docker.engine_events import EngineEvent, EngineEvents
from replication_lab.world.docker.lab import Lab
from replication_lab.world.packets import netem, packet_loss

# What `lab watch`, `lab status`, the live page and `lab disk list` run from another process: it reads little, and
# changes nothing.
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
    "guest cluster address",
    f"sh -c {LOOKS}",
    f"guest sh -c {LOOKS}",
    "mariadb --skip-ssl --host",
    "printenv ",
    "cat ",
    "silence",
    # What witnesses run.
    " ".join(packet_rules.COMMAND),
    " ".join(replicated_disk.COMMAND),
)
EXPECTED = (
    # It shows what is done to packets; another call at the end of the same script changes that.
    re.compile(rf"(guest )?bash -c ({re.escape(netem.STEPS)}|{re.escape(packet_loss.STEPS)})\nshow"),
    # The client of `lab sql`. A client outside of the container could do the same.
    re.compile(r"(env MYSQL_PWD= guest --terminal bash -c .* bash )?(mariadb|mysql) -u\S+( [^\s-]\S*)?"),
    re.compile(r"sh -c command -v \S+ \|\| true"),
)
# How the engine runs a health check that is not a list of words, unless the image names another shell.
IN_SHELL, SHELL = "CMD-SHELL", ["/bin/sh", "-c"]


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
        contrary = [(each.at, str(each)) for each in self._events.by_others() if not self._is_expected(each)]
        return Observation.between(self.obligation, zero, (self._began, ended), contrary)

    def _is_expected(self, event: EngineEvent) -> bool:
        """Return whether a command is the health check of its container, only reads, or is the client of `lab sql`."""
        command = event.command
        return bool(command) and (
            # The engine puts a space behind a command of one word.
            command.rstrip() == self._checks.get(event.service)
            or command.startswith(READS)
            or any(one.fullmatch(command) for one in EXPECTED)
        )

    def close(self) -> None:
        self._events.close()


def _restarts(attributes: dict[str, Any]) -> bool:
    return attributes["HostConfig"].get("RestartPolicy", {}).get("Name", "") not in ("", "no")


def _health_check(attributes: dict[str, Any]) -> str:
    """Return the command by which the engine checks a container's health, as it reports it; empty if it checks none."""
    settings = attributes["Config"]
    how, *words = (settings.get("Healthcheck") or {}).get("Test") or ["NONE"]
    shell = (settings.get("Shell") or SHELL) if how == IN_SHELL else []
    return " ".join([*shell, *words])
