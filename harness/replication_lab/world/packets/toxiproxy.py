"""Toxiproxy's HTTP API."""

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from functools import cached_property
from typing import Any

import msgspec
import requests

from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.model.lab.toxic import EXACT_LATENCY, LATENCY, LINK_RATE, ToxicBody
from replication_lab.world import requests_made

# Toxiproxy refuses requests with a browser's user agent. It answers within milliseconds or not at all.
SECONDS = 5
# More changes than any Toxiproxy lists.
ALL_CHANGES = 1 << 31
MICROSECONDS = 1000
ACCEPTED = "Accepted client"


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
        with as_lab_error(
            requests.RequestException,
            f"Toxiproxy at {self.address} does not answer",
            "a response of its API",
            "./lab status",
        ):
            with noted:
                return self._session.request(method, f"http://{self.address}{path}", json=body, timeout=SECONDS)

    def proxies(self) -> dict[str, dict[str, Any]]:
        return self.call("GET", "/proxies")

    def changes(self, since: int = 0) -> dict[str, Any] | None:
        """Return what was asked to change after the first `since` changes; None where the image has no such list.

        `count` is the number of all changes, `began` tells one start of the proxy from another. `now` and the `at` of
        each change are seconds since then; `agent` is the user agent of whoever asked for it. `toxics` are the names of
        those toxics that only the lab's image has.
        """
        answer = self._answer("GET", f"/changes?since={since}")
        return answer.json() if answer.ok else None

    @cached_property
    def latency_step_ms(self) -> float:
        """The difference between two latencies that it can make, in ms: 0.001, or 1 for an image of others."""
        found = self.changes(ALL_CHANGES) or {}
        return 1 / MICROSECONDS if EXACT_LATENCY in found.get("toxics", ()) else 1

    def create(self, name: str, listen: str, upstream: str) -> None:
        """Create a proxy, switched on."""
        self.call("POST", "/proxies", {"name": name, "listen": listen, "upstream": upstream, "enabled": True})

    def add(self, proxy: str, body: ToxicBody, link: str = "") -> None:
        """Add a toxic to a proxy. `link` is the name under which all ports of a link share a rate."""
        posted = msgspec.to_builtins(self._in_its_steps(body) if body.type == LATENCY else body)
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

    def _in_its_steps(self, body: ToxicBody) -> ToxicBody:
        if self.latency_step_ms == 1:
            whole = {name: round(ms) for name, ms in body.attributes.items()}
            return msgspec.structs.replace(body, attributes=whole)
        exact = {f"{name}_us": round(ms * MICROSECONDS) for name, ms in body.attributes.items()}
        return msgspec.structs.replace(body, type=EXACT_LATENCY, attributes=exact)

    def toxics(self, proxy: str) -> list[ToxicBody]:
        """Return the toxics on a proxy; those of a shared rate have the name of `add` as the attribute link."""
        found = self.call("GET", f"/proxies/{proxy}/toxics")
        bodies = [ToxicBody(*(each[name] for name in ToxicBody.__struct_fields__)) for each in found]
        return [_in_milliseconds(body) if body.type == EXACT_LATENCY else body for body in bodies]

    def carried(self, link: str) -> int:
        """Return the bytes that all connections sharing the rate `link` have carried; 0 for an unknown name."""
        answer = self._answer("GET", "/metrics")
        counter = f'{LINK_RATE}_bytes_total{{link="{link}"}} '
        counted = [line.removeprefix(counter) for line in answer.text.splitlines() if line.startswith(counter)]
        return int(float(counted[0])) if counted else 0


def accepted_clients(log: str) -> Iterator[tuple[str, str]]:
    """Yield the proxy's name and the client's address of each connection that a Toxiproxy says it has accepted."""
    for line in log.splitlines():
        if ACCEPTED in line:
            with suppress(msgspec.DecodeError, KeyError):
                said = msgspec.json.decode(line)
                yield said["name"], said["client"].rpartition(":")[0].strip("[]")


def _in_milliseconds(body: ToxicBody) -> ToxicBody:
    """Return an exact latency as the latency that was added: whole milliseconds are integers, as in a toxic's file."""
    exact = {name.removesuffix("_us"): us / MICROSECONDS for name, us in body.attributes.items()}
    latency = {name: int(ms) if ms == int(ms) else ms for name, ms in exact.items()}
    return msgspec.structs.replace(body, type=LATENCY, attributes=latency)
