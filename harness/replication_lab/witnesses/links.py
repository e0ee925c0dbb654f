"""Was each change of a link made by this process? The lab's Toxiproxies list every change that is requested.

A Toxiproxy of another image has no such list. Its proxies and toxics are read again and again instead.
"""

from dataclasses import dataclass, field
from typing import Any

from replication_lab.model.core.observation import Observation
from replication_lab.witnesses.sampled import Sampled
from replication_lab.world import clock, requests_made
from replication_lab.world.docker.lab import Lab
from replication_lab.world.packets.toxiproxy import Toxiproxy


class LinkWitness:
    """The links of a lab, observed from its making on."""

    obligation = "no other program changed a link of the lab"

    def __init__(self, lab: Lab) -> None:
        links = [lab.link(link.name) for link in lab.topology.links]
        proxies = {link.ends.proxy.name: link.toxiproxy for link in links}
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
            if each["agent"] != requests_made.SENDER
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
