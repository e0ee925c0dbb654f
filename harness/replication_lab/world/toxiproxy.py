"""The links between nodes: Toxiproxy's HTTP API, a link at a time."""

from dataclasses import dataclass
from typing import Any

import msgspec
import requests

from replication_lab.model.errors import LabError
from replication_lab.model.topology import BACK
from replication_lab.model.toxic import ToxicBody

# Toxiproxy refuses requests that look like a browser's; it also answers in milliseconds or not at all.
HEADERS, SECONDS = {"User-Agent": "replication-lab"}, 5


class Toxiproxy:
    """One Toxiproxy server, by the address of its API (`127.0.0.1:PORT`)."""

    def __init__(self, address: str):
        self.address = address
        self._session = requests.Session()
        self._session.headers.update(HEADERS)
        # A company's HTTP proxy must not be used for loopback.
        self._session.trust_env = False

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the decoded JSON of an answer; LabError with Toxiproxy's own words when it refuses or is silent."""
        try:
            answer = self._session.request(method, f"http://{self.address}{path}", json=body, timeout=SECONDS)
        except requests.RequestException as error:
            raise LabError(
                f"Toxiproxy at {self.address} does not answer: {error}", "its API", "./lab status"
            ) from error
        if not answer.ok:
            raise LabError(
                f"Toxiproxy refused {method} {path}: {answer.text.strip()}", "a toxic that it knows", "./lab toxic"
            )
        return answer.json() if answer.content else None

    def proxies(self) -> dict[str, dict[str, Any]]:
        return self.call("GET", "/proxies")

    def create(self, name: str, listen: str, upstream: str) -> None:
        """Create a proxy, switched on."""
        self.call("POST", "/proxies", {"name": name, "listen": listen, "upstream": upstream, "enabled": True})

    def add(self, proxy: str, body: ToxicBody) -> None:
        self.call("POST", f"/proxies/{proxy}/toxics", msgspec.to_builtins(body))

    def bytes_through(self) -> dict[str, int]:
        """Return the bytes of each proxy's ended connections, both ways: {proxy name: bytes}; open ones excluded."""
        text = self._session.get(f"http://{self.address}/metrics", timeout=SECONDS).text
        counted: dict[str, int] = {}
        for line in text.splitlines():
            if line.startswith("toxiproxy_proxy_received_bytes_total{"):
                name = line.split('proxy="', 1)[1].split('"', 1)[0]
                counted[name] = counted.get(name, 0) + int(float(line.rsplit(" ", 1)[1]))
        return counted


@dataclass(frozen=True)
class Wire:
    """A link in a running Toxiproxy; `address` is where the host reaches the port that leads to SQL.

    `proxies` are the entries that make it up: a toxic or a cut applies to all of them, and the link's state is that of
    the worst of them.
    """

    name: str
    toxiproxy: Toxiproxy
    address: tuple[str, int]
    proxies: tuple[str, ...]

    def toxics(self) -> list[dict[str, Any]]:
        """Return the toxics that are on any of the link's ports."""
        found = {toxic["name"]: toxic for proxy in self.proxies for toxic in self._toxics_of(proxy)}
        return list(found.values())

    def _toxics_of(self, proxy: str) -> list[dict[str, Any]]:
        return self.toxiproxy.call("GET", f"/proxies/{proxy}/toxics")

    def carries(self, toxics: set[str]) -> bool:
        """Return whether all of these toxics are on every port."""
        return all(toxics <= {found["name"] for found in self._toxics_of(proxy)} for proxy in self.proxies)

    def add(self, body: ToxicBody) -> None:
        for proxy in self.proxies:
            self.toxiproxy.add(proxy, body.reversed() if proxy.endswith(BACK) else body)

    def remove(self, toxic: str) -> None:
        """Remove a toxic from every port that it is on; LabError if it is on none."""
        holders = [proxy for proxy in self.proxies if toxic in {found["name"] for found in self._toxics_of(proxy)}]
        for proxy in holders or self.proxies[:1]:
            self.toxiproxy.call("DELETE", f"/proxies/{proxy}/toxics/{toxic}")

    def enable(self, enabled: bool) -> None:
        """Switch the link on or off: off refuses and ends every connection across it."""
        for proxy in self.proxies:
            self.toxiproxy.call("POST", f"/proxies/{proxy}", {"enabled": enabled})

    def enabled(self) -> bool:
        return all(self.toxiproxy.call("GET", f"/proxies/{proxy}")["enabled"] for proxy in self.proxies)

    def lets_through(self) -> bool:
        """Return whether any of its ports is on: a link is cut when none is."""
        return any(self.toxiproxy.call("GET", f"/proxies/{proxy}")["enabled"] for proxy in self.proxies)

    def bytes_through(self) -> int:
        counted = self.toxiproxy.bytes_through()
        return sum(counted.get(proxy, 0) for proxy in self.proxies)
