"""Toxiproxy's HTTP API."""

from contextlib import nullcontext
from typing import Any

import msgspec
import requests

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.toxic import LINK_RATE, ToxicBody
from replication_lab.world import requests_made

# Toxiproxy refuses requests with a browser's user agent. It answers within milliseconds or not at all.
SECONDS = 5


class Toxiproxy:
    """One Toxiproxy server, by the address of its API (`127.0.0.1:PORT`)."""

    def __init__(self, address: str):
        self.address = address
        # It sends each request once: requests repeats none by itself.
        self._session = requests.Session()
        self._session.headers.update({"User-Agent": requests_made.SENDER})
        # A company's HTTP proxy, set in the environment, must not be used for loopback.
        self._session.trust_env = False

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the decoded JSON of an answer; LabError with Toxiproxy's message if it refuses or is silent."""
        answer = self._answer(method, path, body)
        if not answer.ok:
            raise LabError(
                f"Toxiproxy refused {method} {path}: {answer.text.strip()}",
                "a toxic that Toxiproxy supports",
                "./lab toxic",
            )
        return answer.json() if answer.content else None

    def _answer(self, method: str, path: str, body: Any = None) -> requests.Response:
        noted = nullcontext() if method == "GET" else requests_made.noted(method, self.address)
        try:
            with noted:
                return self._session.request(method, f"http://{self.address}{path}", json=body, timeout=SECONDS)
        except requests.RequestException as error:
            raise LabError(
                f"Toxiproxy at {self.address} does not answer: {error}", "a response of its API", "./lab status"
            ) from error

    def proxies(self) -> dict[str, dict[str, Any]]:
        return self.call("GET", "/proxies")

    def changes(self, since: int = 0) -> dict[str, Any] | None:
        """Return what was asked to change after the first `since` changes; None where the image has no such list.

        `count` is the number of all changes, `began` tells one start of the proxy from another. `now` and the `at` of
        each change are seconds since then; `agent` is the user agent of whoever asked for it.
        """
        answer = self._answer("GET", f"/changes?since={since}")
        return answer.json() if answer.ok else None

    def create(self, name: str, listen: str, upstream: str) -> None:
        """Create a proxy, switched on."""
        self.call("POST", "/proxies", {"name": name, "listen": listen, "upstream": upstream, "enabled": True})

    def add(self, proxy: str, body: ToxicBody, link: str = "") -> None:
        """Add a toxic to a proxy. `link` is the name under which all ports of a link share a rate."""
        posted = msgspec.to_builtins(body)
        if link:
            posted["attributes"] = {**body.attributes, "link": link}
        try:
            self.call("POST", f"/proxies/{proxy}/toxics", posted)
        except LabError as error:
            if body.type != LINK_RATE or "invalid toxic type" not in error.found:
                raise
            raise LabError(
                f"{body.name} limits the whole link, but this lab's Toxiproxy can limit only single connections",
                "a lab that was started with the current image of images/toxiproxy",
                "./lab down, then up again",
            ) from error

    def toxics(self, proxy: str) -> list[ToxicBody]:
        """Return the toxics on a proxy; those of a shared rate have the name of `add` as the attribute link."""
        found = self.call("GET", f"/proxies/{proxy}/toxics")
        return [ToxicBody(*(each[name] for name in ToxicBody.__struct_fields__)) for each in found]

    def carried(self, link: str) -> int:
        """Return the bytes that all connections sharing the rate `link` have carried; 0 for an unknown name."""
        answer = self._answer("GET", "/metrics")
        counter = f'{LINK_RATE}_bytes_total{{link="{link}"}} '
        counted = [line.removeprefix(counter) for line in answer.text.splitlines() if line.startswith(counter)]
        return int(float(counted[0])) if counted else 0
