"""Was each act on a container, a link or an emulated disk made by this process? Each lists what is requested."""

import re
from dataclasses import dataclass, field
from typing import Any

from replication_lab.model.core.observation import Observation
from replication_lab.probes.node_resources import LOOKS
from replication_lab.witnesses import told_changes
from replication_lab.witnesses.sampled import Sampled
from replication_lab.world import clock, requests_made
from replication_lab.world.disks.spindle import ASKED
from replication_lab.world.docker.engine_events import EngineEvent, EngineEvents
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server
from replication_lab.world.packets import netem, packet_loss
from replication_lab.world.packets.toxiproxy import Toxiproxy
from replication_lab.world.requests_made import SENDER

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
    "printenv ",
    "cat ",
    "silence",
    # What witnesses run.
    " ".join(told_changes.RULES_COMMAND),
    " ".join(told_changes.DISK_COMMAND),
)
EXPECTED = (
    # It shows what is done to packets; another call at the end of the same script changes that.
    re.compile(rf"(guest )?bash -c ({re.escape(netem.STEPS)}|{re.escape(packet_loss.STEPS)})\nshow"),
    # The client of `lab sql`. A client outside of the container could do the same.
    re.compile(r"(env MYSQL_PWD= guest --terminal bash -c .* bash )?(mariadb|mysql) -u\S+( [^\s-]\S*)?"),
    re.compile(r"sh -c command -v \S+ \|\| true"),
    re.compile(r"mariadb --skip-ssl --host=\S+ --user=\S+ --connect-timeout=2 -N -e SELECT [^;]*"),
)
# How the engine runs a health check that is not a list of words, unless the image names another shell.
IN_SHELL, SHELL = "CMD-SHELL", ["/bin/sh", "-c"]
PLUGIN = "/usr/local/lib/spindle.so"
DISKS_KEPT = "no other program changed an emulated disk of the lab"


class ContainerWitness:
    """The containers of a lab, observed from the subscription to the engine's events on."""

    obligation = "no other program started, stopped or changed a container of the lab, or ran a command in it"

    def __init__(self, lab: Lab) -> None:
        known = {str(each.id): service or str(each.name) for service, each in lab.containers.items()}
        restarting = {str(each.id) for each in lab.containers.values() if _restarts(each.attrs)}
        self._checks = {service: _health_check(each.attrs) for service, each in lab.containers.items()}
        # `lab status` of another process shows it.
        self._view = " ".join(lab.manager.kind.view) if lab.manager else ""
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
            command.rstrip() in (self._checks.get(event.service), self._view)
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


class LinkWitness:
    """The links of a lab, observed from its making on: its Toxiproxies list every change that is requested.

    A Toxiproxy of another image has no such list. Its proxies and toxics are read again and again instead.
    """

    obligation = "no other program changed a link of the lab"

    def __init__(self, lab: Lab) -> None:
        links = [lab.link(link.name) for link in lab.topology.links]
        proxies = {link.proxy.name: link.toxiproxy for link in links}
        listed = {service: (proxy, proxy.changes()) for service, proxy in proxies.items()}
        self._listed = [_Listed(service, proxy, before) for service, (proxy, before) in listed.items() if before]
        readings = {service: _Proxies(service) for service, (_, before) in listed.items() if not before}
        # One that does not answer leaves a gap: it may change meanwhile.
        self._sampled = Sampled(self.obligation, lab, readings, lambda _, name: proxies[name], lambda *_: True)
        self._began = clock.timer()

    def observation(self, zero: float) -> Observation:
        """Return what was seen until now; `zero` is the moment of the clock's timer that times are counted from."""
        sampled = self._sampled.observation(zero)
        contrary = [(at, what) for each in self._listed for at, what in each.by_others()]
        contrary += [(zero + each.at, each.what) for each in sampled.contrary]
        return Observation.between(self.obligation, zero, (self._began, clock.timer()), contrary, sampled.gap_s)

    def close(self) -> None:
        self._sampled.close()


@dataclass
class _Listed:
    """A Toxiproxy that lists its changes; `before` is its answer at the beginning."""

    service: str
    proxy: Toxiproxy
    before: dict[str, Any]

    def by_others(self) -> list[tuple[float, str]]:
        found = self.proxy.changes(self.before["count"])
        now = clock.timer()
        if found is None or found["began"] != self.before["began"]:
            return [(now, f"{self.service} had been restarted")]
        lacking = found["count"] - self.before["count"] - len(found["changes"])
        others = [
            (now - (found["now"] - each["at"]), f"{each['agent'] or 'a program'} sent {each['method']} {each['path']}")
            for each in found["changes"]
            if each["agent"] != SENDER
        ]
        return others + ([(now, f"{lacking} changes are not listed any more")] if lacking else [])


@dataclass
class _Proxies:
    """The proxies of a Toxiproxy that lists no changes, compared with what they were at the reading before."""

    service: str
    _before: dict[str, Any] | None = None
    _read: float = field(default_factory=clock.timer)

    def __call__(self, toxiproxy: Toxiproxy) -> list[str]:
        found, now = toxiproxy.proxies(), clock.timer()
        own = any(one.what == toxiproxy.address and one.overlaps(self._read, now) for one in requests_made.made())
        changed = self._before not in (None, found) and not own
        self._before, self._read = found, now
        return [f"the proxies of {self.service} changed"] if changed else []


def disk_requests(lab: Lab) -> Sampled[Server]:
    """Return the witness of a lab's emulated disks: each logs who asks for other limits, another cache or a failure."""
    disks = [name for name, each in lab.containers.items() if PLUGIN in _command(each.attrs)]
    return Sampled(DISKS_KEPT, lab, {}, logged=dict.fromkeys(disks, _asked))


def _asked(disk: str, _at: float, line: str) -> str:
    """Return in words what others asked a disk for, by a line of its log."""
    found = ASKED.search(line)
    return f"{found[1]} asked {disk} for {found[2]}" if found and found[1] != SENDER else ""


def _command(attributes: dict) -> list[str]:
    return [attributes["Path"], *(attributes["Args"] or [])]
