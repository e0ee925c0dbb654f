"""Was each change of a link made by this process? The lab's Toxiproxies list every change that is requested.

A Toxiproxy of another image has no such list. Its proxies and toxics are read five times a second instead.
"""

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.observation import Happened, Observation
from replication_lab.world import clock, requests_made
from replication_lab.world.docker.lab import Lab
from replication_lab.world.packets.toxiproxy import Toxiproxy

EVERY_SECONDS = 0.2


class LinkWitness:
    """The links of a lab, observed from its making on."""

    obligation = "no other program changed a link of the lab"

    def __init__(self, lab: Lab) -> None:
        links = [lab.link(link.name) for link in lab.topology.links]
        proxies = {link.ends.proxy.name: link.toxiproxy for link in links}
        self._proxies = [_observed(service, proxy) for service, proxy in proxies.items()]
        self._began = clock.timer()

    def observation(self, zero: float) -> Observation:
        """Return what was seen until now; `zero` is the moment of the clock's timer that times are counted from."""
        contrary = [Happened(round(at - zero, 3), what) for each in self._proxies for at, what in each.by_others()]
        return Observation(
            self.obligation,
            begin=round(self._began - zero, 3),
            end=round(clock.timer() - zero, 3),
            gap_s=round(max((each.gap_s for each in self._proxies), default=0.0), 3),
            contrary=sorted(contrary, key=lambda one: one.at),
        )

    def close(self) -> None:
        for each in self._proxies:
            each.close()


def _observed(service: str, proxy: Toxiproxy) -> "_Listed | _Sampled":
    found = proxy.changes()
    return _Sampled(service, proxy) if found is None else _Listed(service, proxy, found)


@dataclass
class _Listed:
    """A Toxiproxy that lists its changes; `before` is its answer at the beginning."""

    service: str
    proxy: Toxiproxy
    before: dict[str, Any]
    gap_s = 0.0

    def by_others(self) -> list[tuple[float, str]]:
        found = self.proxy.changes(self.before["count"])
        now = clock.timer()
        if found is None or found["began"] != self.before["began"]:
            return [(now, f"{self.service} had been restarted")]
        lacking = found["count"] - self.before["count"] - len(found["changes"])
        others = [
            (now - (found["now"] - each["at"]), f"{each['agent'] or 'a program'} sent {each['method']} {each['path']}")
            for each in found["changes"]
            if each["agent"] != requests_made.SENDER
        ]
        return others + ([(now, f"{lacking} changes are not listed any more")] if lacking else [])

    def close(self) -> None:
        """Nothing runs."""


@dataclass
class _Sampled:
    """A Toxiproxy whose state is read again and again."""

    service: str
    proxy: Toxiproxy
    _longest_s: float = 0.0
    _others: list[tuple[float, str]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._last = clock.timer()
        self._thread = threading.Thread(target=self._read, name="links", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        before = self.proxy.proxies()
        while not self._stop.is_set():
            clock.pause(EVERY_SECONDS, unless=self._stop)
            with suppress(LabError):
                found, now = self.proxy.proxies(), clock.timer()
                self._longest_s = max(self._longest_s, now - self._last)
                if found != before and not self._is_own(self._last, now):
                    self._others.append((now, f"the proxies of {self.service} changed"))
                before, self._last = found, now

    @property
    def gap_s(self) -> float:
        """The longest time without a reading; until now, if the proxy does not answer any more."""
        return max(self._longest_s, clock.timer() - self._last)

    def _is_own(self, begin: float, end: float) -> bool:
        return any(one.what == self.proxy.address and one.overlaps(begin, end) for one in requests_made.made())

    def by_others(self) -> list[tuple[float, str]]:
        return list(self._others)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(1)
