"""A scripted lab for the page: a source and a semi-synchronous replica, without containers.

`python -m tests.fakes.live` serves the page with it. The commit rate follows the round trip by the law, with some
noise; a killed source stops all commits; a cut link makes semi-sync fall back after ten seconds.
"""

import argparse
import math
import threading
import time
from datetime import UTC, datetime
from random import Random

import msgspec
from replication_lab.live.session import Impossible, Put, Unknown
from replication_lab.model.core.errors import LabError
from replication_lab.model.live.view import (
    Accepted,
    ActOnNode,
    Choice,
    Gone,
    Hello,
    Latency,
    Level,
    Span,
    Track,
    ViewedLedger,
    ViewedLink,
    ViewedLoad,
    ViewedNode,
    ViewedSample,
    ViewedState,
)

CLIENTS, RATE, LINK, BARE_MS, TIMEOUT_S = 4, 400.0, "source-replica", 0.3, 10
NODES = {"source": "source", "replica": "replica"}
AFTER = {"kill": "exited", "stop": "exited", "pause": "paused", "resume": "running", "start": "running"}
POSSIBLE = {"running": ["kill", "stop", "pause", "restart"], "paused": ["resume"], "exited": ["start"]}
SILENT = ("cut", "black-hole", "one-way", "reset")


class FakeLive:
    """The methods of ViewSession that a page's server calls. `tick` makes the next second."""

    def __init__(self, seed: int = 1):
        self.dice, self.lock = Random(seed), threading.Lock()
        self.at, self.condition, self.seen = 0.0, "85ms", True
        self.states = dict.fromkeys(NODES, "running")
        self.broken_since: float | None = None
        self.ledger = ViewedLedger(lost=None)
        self.spans: list[Span] = []
        self.samples: list[ViewedSample] = []
        self.asked: list[tuple] = []
        self.viewers: list[Put] = []
        self.recording = ""
        self.is_gone = False

    # -- what the page's server calls --------------------------------------------------------------------------------

    def hello(self) -> Hello:
        return Hello(
            version="0.0.0",
            lab="lab-semisync",
            topology="semisync",
            about="A source and a semi-synchronous replica 85 ms apart.",
            engine="mariadb",
            waits_on="nearest",
            toxics=[Choice("wan-85ms", "A WAN of 85 ms round trip."), Choice("black-hole", "Nothing arrives.")],
            samples=self.samples[-600:],
        )

    def subscribe(self, put: Put):
        self.viewers.append(put)
        return lambda: self.viewers.remove(put)

    def change_link(self, name: str, condition: str | None) -> Accepted:
        if name != LINK:
            raise Unknown from LabError(f"unknown link {name!r}", LINK)
        asked = "85ms" if condition is None else condition
        if asked not in (*SILENT, "none", "wan-85ms") and not asked.endswith(("ms", "mbit")):
            raise LabError(f"condition {asked!r} cannot be read", "a condition such as 40ms")
        self.asked.append(("link", name, condition))
        with self.lock:
            self.condition, self.seen = asked, None
            self._end(name)
            if asked != "85ms":
                self._begin(f"{name} {asked}", "link", name)
        self.show()
        return Accepted(f"{name}: {asked}")

    def act_on_node(self, name: str, action: str, asked: ActOnNode) -> Accepted:
        if name not in NODES or action not in (*AFTER, "restart", "promote", "rejoin", "disk-limit"):
            raise Unknown from LabError(f"unknown node or action {name!r} {action!r}", ", ".join(NODES))
        if action not in POSSIBLE[self.states[name]]:
            raise Impossible from LabError(f"{name} is {self.states[name]}", "a node in another state")
        self.asked.append(("node", name, action))
        with self.lock:
            self.states[name] = AFTER.get(action, self.states[name])
            self._end(name)
            if self.states[name] != "running":
                self._begin(f"{action} {name}", "node", name)
            elif name == "source":
                self.ledger = msgspec.structs.replace(self.ledger, lost=0, checked_at=self.at, checked_on="source")
        self.show()
        return Accepted(f"{action} {name}")

    def check_ledger(self) -> Accepted:
        self.asked.append(("check",))
        self.ledger = msgspec.structs.replace(self.ledger, lost=0, checked_at=self.at, checked_on="source")
        self.show()
        return Accepted("comparing the ledger with the rows of every copy")

    def record(self, on: bool) -> Accepted:
        self.asked.append(("record", on))
        self.recording = "runs/20300101-120000-live-semisync" if on else ""
        self.show()
        return Accepted("recording" if on else "recorded", self.recording)

    def save_drill(self, name: str) -> Accepted:
        self.asked.append(("drill", name))
        return Accepted("saved", f"runs/{name}.yaml")

    # -- the script ----------------------------------------------------------------------------------------------------

    def _begin(self, label: str, kind: str, target: str) -> None:
        self.spans.append(Span(id=len(self.spans), begin=self.at, label=label, kind=kind, target=target))

    def _end(self, target: str) -> None:
        self.spans = [
            msgspec.structs.replace(each, end=self.at) if each.target == target and each.end is None else each
            for each in self.spans
        ]

    def trip_ms(self) -> float | None:
        """Return the round trip; None if nothing comes back."""
        if self.condition in SILENT or self.states["replica"] != "running":
            return None
        asked = self.condition.partition("ms")[0].removeprefix("wan-")
        return BARE_MS + (float(asked) + self.dice.uniform(0, 2) if asked.isdecimal() else 0)

    def tick(self) -> ViewedState:
        """Make the next second, and show it."""
        with self.lock:
            self.at += 1
            trip = self.trip_ms()
            self.broken_since = None if trip is not None else self.broken_since or self.at
            fell_back = self.broken_since is not None and self.at - self.broken_since >= TIMEOUT_S
            waits = self.states["source"] != "running" or (trip is None and not fell_back)
            law = None if trip is None else min(RATE, CLIENTS * 1000 / trip)
            rate = 0 if waits else RATE if fell_back else (law or 0) * self.dice.uniform(0.95, 1.0)
            commits = math.floor(rate)
            middle = (trip or 0) + 0.8
            self.ledger = msgspec.structs.replace(
                self.ledger,
                sent=self.ledger.sent + commits,
                acknowledged=self.ledger.acknowledged + commits,
                in_flight=CLIENTS if waits else 0,
            )
            self.seen = True
            self.spans = [msgspec.structs.replace(each, seen=True) for each in self.spans]
            self.samples.append(
                ViewedSample(
                    at=self.at,
                    commits_per_s=commits,
                    errors_per_s=40.0 if self.states["source"] != "running" else 0.0,
                    law_per_s=law,
                    latency=Latency(middle, middle * 1.1, middle * 1.3, commits) if commits else None,
                    lag_s={"replica": None if trip is None else 0.0},
                    behind={"replica": commits if fell_back else 0},
                    round_trip_ms={LINK: trip},
                    bands=self._bands(fell_back),
                )
            )
        return self.show()

    def _bands(self, fell_back: bool) -> list[Track]:
        source = Track("source", "does not answer", Level.BAD)
        if self.states["source"] == "running":
            source = Track("source", *(("semi-sync OFF", Level.WARN) if fell_back else ("semi-sync ON", Level.GOOD)))
        away = self.broken_since is not None
        return [source, Track("replica", *(("not connected", Level.BAD) if away else ("replicating", Level.GOOD)))]

    def state(self) -> ViewedState:
        sample = self.samples[-1] if self.samples else ViewedSample(at=self.at)
        bands = {band.track: band for band in sample.bands}
        return ViewedState(
            at=self.at,
            wall=datetime.now(UTC).isoformat(timespec="milliseconds"),
            load=ViewedLoad(clients=CLIENTS, rate=RATE, node="source"),
            nodes=[
                ViewedNode(
                    name=name,
                    role=role,
                    at=self.states[name],
                    state=bands[name].state if name in bands else "serving",
                    level=bands[name].level if name in bands else Level.GOOD,
                    writes_here=name == "source",
                    lag_s=sample.lag_s.get(name),
                    behind=sample.behind.get(name),
                    actions=[*POSSIBLE[self.states[name]], *(["promote"] if role == "replica" else [])],
                )
                for name, role in NODES.items()
            ],
            links=[
                ViewedLink(
                    carries=True,
                    name=LINK,
                    source="source",
                    target="replica",
                    asked=self.condition,
                    was="85ms",
                    measured_ms=sample.round_trip_ms.get(LINK),
                    seen=self.seen,
                    says=f"round trip {sample.round_trip_ms.get(LINK)} ms" if self.seen else "",
                    busy=self.seen is None,
                )
            ],
            sample=sample,
            spans=list(self.spans),
            ledger=self.ledger,
            explain=[
                f"Each commit waits for the replica across {LINK}.",
                f"{CLIENTS} clients commit at most {sample.law_per_s or 0:.0f} times a second.",
            ],
            recording=self.recording,
            clicks=len(self.asked),
        )

    def show(self) -> ViewedState:
        state = self.state()
        for put in list(self.viewers):
            put(state)
        return state

    def end(self, why: str = "lab-semisync was removed") -> None:
        """Tell all viewers that the lab is gone."""
        self.is_gone = True
        for put in list(self.viewers):
            put(Gone(why))


def main() -> None:
    """Serve the page until Ctrl-C, or until the lab is gone."""
    from replication_lab.live.server import serving

    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--gone", type=float, default=math.inf, metavar="SECONDS", help="remove the lab after this")
    given = options.parse_args()
    lab = FakeLive()
    with serving(lab, given.port, lambda address: print(f"for another browser: {address}", flush=True)) as address:
        print(address, flush=True)
        while lab.at < given.gone:
            time.sleep(1)
            lab.tick()
        lab.end()


if __name__ == "__main__":
    main()
