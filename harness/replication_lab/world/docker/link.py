"""One link of a running lab: its toxics, its on/off switch, and the server at its far end."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from replication_lab.model.topology import BACK, Link
from replication_lab.model.toxic import LINK_RATE, ToxicBody
from replication_lab.world.echo import Echo
from replication_lab.world.mysql.server import Server
from replication_lab.world.toxiproxy import Toxiproxy

if TYPE_CHECKING:
    from replication_lab.world.docker.lab import Lab


@dataclass(frozen=True)
class RunningLink:
    """A link as it is in its lab's Toxiproxy; `model` is its description in the topology.

    A link with several ports has an entry in Toxiproxy for each. A toxic or a cut applies to all of them, and the
    link's state is the worst of theirs.
    """

    lab: "Lab"
    model: Link
    # The service that runs the link's Toxiproxy.
    proxy: str = "toxiproxy"

    @property
    def name(self) -> str:
        return self.model.name

    @cached_property
    def toxiproxy(self) -> Toxiproxy:
        return self.lab.toxiproxy_of(self.proxy)

    @cached_property
    def address(self) -> tuple[str, int]:
        """Return (host, port) at which this machine reaches the link's far end, across the link."""
        return self.lab.service(self.proxy).direct_address(self.model.port)

    def far_end(self) -> Server | Echo:
        """Return the server at the far end, or the echo in its place."""
        if self.model.echoes:
            return Echo(self.model.server)
        return self.lab.node(self.model.server).server()

    def toxics(self) -> list[dict[str, Any]]:
        """Return the toxics of all ports of the link."""
        found = {toxic["name"]: toxic for proxy in self.model.proxies for toxic in self._toxics_of(proxy)}
        return list(found.values())

    def _toxics_of(self, proxy: str) -> list[dict[str, Any]]:
        return self.toxiproxy.call("GET", f"/proxies/{proxy}/toxics")

    def carries(self, toxics: set[str]) -> bool:
        """Return whether all of these toxics are on every port."""
        return all(toxics <= {found["name"] for found in self._toxics_of(proxy)} for proxy in self.model.proxies)

    def add(self, body: ToxicBody) -> None:
        for proxy in self.model.proxies:
            link = self.line(body) if body.type == LINK_RATE else ""
            self.toxiproxy.add(proxy, body.reversed() if proxy.endswith(BACK) else body, link)

    def line(self, body: ToxicBody) -> str:
        """Return the name under which all connections of the link's ports share a rate; each direction has its own."""
        return f"{self.name}/{body.name}"

    def shares(self, body: ToxicBody) -> bool:
        """Return whether a rate is on every port under the same name, which makes it the rate of all ports together."""
        own = (body.name, LINK_RATE, self.line(body))
        return all(
            own in {(each["name"], each["type"], each["attributes"].get("link")) for each in self._toxics_of(proxy)}
            for proxy in self.model.proxies
        )

    def carried(self, body: ToxicBody) -> int:
        """Return the bytes that the connections of all ports have carried under a rate."""
        return self.toxiproxy.carried(self.line(body))

    def remove(self, toxic: str) -> None:
        """Remove a toxic from every port that it is on; LabError if it is on none."""
        holders = [
            proxy for proxy in self.model.proxies if toxic in {found["name"] for found in self._toxics_of(proxy)}
        ]
        for proxy in holders or self.model.proxies[:1]:
            self.toxiproxy.call("DELETE", f"/proxies/{proxy}/toxics/{toxic}")

    def cut(self) -> None:
        """Switch the link off: every connection across it ends, and new ones are refused."""
        self._switch(on=False)

    def enable(self) -> None:
        """Switch the link on."""
        self._switch(on=True)

    def _switch(self, on: bool) -> None:
        for proxy in self.model.proxies:
            self.toxiproxy.call("POST", f"/proxies/{proxy}", {"enabled": on})

    def enabled(self) -> bool:
        return all(self.toxiproxy.call("GET", f"/proxies/{proxy}")["enabled"] for proxy in self.model.proxies)

    def lets_through(self) -> bool:
        """Return whether any of its ports is switched on; a link is cut when none is."""
        return any(self.toxiproxy.call("GET", f"/proxies/{proxy}")["enabled"] for proxy in self.model.proxies)
