"""Toxiproxy's HTTP API."""

from typing import Any

import msgspec
import requests

from replication_lab.model.errors import LabError
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
                f"Toxiproxy at {self.address} does not answer: {error}", "a response of its API", "./lab status"
            ) from error
        if not answer.ok:
            raise LabError(
                f"Toxiproxy refused {method} {path}: {answer.text.strip()}",
                "a toxic that Toxiproxy supports",
                "./lab toxic",
            )
        return answer.json() if answer.content else None

    def proxies(self) -> dict[str, dict[str, Any]]:
        return self.call("GET", "/proxies")

    def create(self, name: str, listen: str, upstream: str) -> None:
        """Create a proxy, switched on."""
        self.call("POST", "/proxies", {"name": name, "listen": listen, "upstream": upstream, "enabled": True})

    def add(self, proxy: str, body: ToxicBody) -> None:
        self.call("POST", f"/proxies/{proxy}/toxics", msgspec.to_builtins(body))
