"""The round trip across a link: the far end's answer to a ping, by a connection that crosses the link itself."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from statistics import median

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.toxic import ToxicBody
from replication_lab.model.record.measurement import Spread
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.packets.link import RunningLink

PINGS = 5
PAUSE_SECONDS = 0.02
# Longer than any round trip and any bulk answer that is requested here; a black hole costs a probe this long.
ANSWER_SECONDS = 3
# Parallel connections. If each were limited separately, they would carry this many times the rate.
LANES = 3
# A rate is measured for this many seconds, or with this many KB on each connection if that is shorter.
SECONDS, MOST_KB = 1.5, 8_000
# A link in use also carries the data of other connections.
RATE_ANSWER_SECONDS = 30
SHORTEST_SECONDS = 0.001


class RoundTrip:
    """Pings of a link's far end through the link, connected before a toxic is added, so as not to wait.

    With `lanes` connections as many round trips are measured at once: across a WAN, five take as long as one.
    """

    def __init__(self, link: RunningLink, lanes: int = 1, answer_seconds: float = ANSWER_SECONDS):
        self.link = link
        self._connection = link.connect(answer_seconds)
        self._beside = [RoundTrip(link) for _ in range(lanes - 1)]
        self._busy = threading.Lock()

    def close(self) -> None:
        with self._busy:
            self._connection.close()
        for each in self._beside:
            each.close()

    def ping(self) -> float | None:
        """Return one round trip in ms; None when the connection was ended or nothing came back."""
        with self._busy:
            return self._connection.ping()

    def pings(self, count: int = PINGS) -> list[float]:
        """Return `count` round trips in ms, one after another on each connection; fewer when a connection is lost."""
        lanes = [self, *self._beside]
        with ThreadPoolExecutor(len(lanes)) as pool:
            trips = list(pool.map(lambda number: lanes[number % len(lanes)].ping(), range(count)))
        return [trip for trip in trips if trip is not None]

    def typical(self, count: int = PINGS) -> float | None:
        """Return the median of `count` round trips in ms; None when none came back."""
        trips = self.pings(count)
        return median(trips) if trips else None

    def answer_within(self, seconds: float) -> float:
        """Return one round trip in ms; TimeoutError when no answer came in time.

        The connection is of no use after that. One that has ended, as after an earlier question that got no answer, is
        replaced: its end shows nothing about the link.
        """
        answered: list[float | None] = []
        asking = threading.Thread(target=lambda: answered.append(self.ping()), daemon=True)
        asking.start()
        asking.join(seconds)
        if not answered:
            raise TimeoutError(f"no answer across {self.link.name} within {seconds:g} s")
        if answered[0] is not None:
            return answered[0]
        began = clock.timer()
        try:
            with closing(RoundTrip(self.link, answer_seconds=seconds)):
                return (clock.timer() - began) * 1000
        except LabError as error:
            raise TimeoutError(f"no new connection across {self.link.name}: {error.found}") from error

    def kilobytes_per_second(self, kilobytes: int) -> float:
        """Return the bandwidth from the link's upstream by one long answer; 1 KB is 1000 bytes, as in Toxiproxy."""
        with self._busy:
            return kilobytes / self._connection.long_answer(kilobytes * 1000)

    def sum_of_rates(self, body: ToxicBody, round_trip_ms: float) -> float:
        """Return the KB/s of all connections of the link together, in the direction of a rate on it."""
        return sum_of_rates(self.link, body, round_trip_ms)

    @contextmanager
    def watching(self) -> Iterator[list[float]]:
        """Ping all through the block; the yielded list receives the round trips in ms."""
        trips: list[float] = []
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                trip = self.ping()
                if trip is None:
                    return
                trips.append(trip)
                done.wait(PAUSE_SECONDS)

        watcher = threading.Thread(target=watch, daemon=True, name=f"watch {self.link.name}")
        watcher.start()
        try:
            yield trips
        finally:
            done.set()
            watcher.join()


def spread(values: list[float]) -> Spread | None:
    """Return smallest, median, largest and count; None for an empty list."""
    if not values:
        return None
    return Spread(min=round(min(values), 3), p50=round(median(values), 3), max=round(max(values), 3), n=len(values))


def sum_of_rates(link: RunningLink, body: ToxicBody, round_trip_ms: float = 0) -> float:
    """Return the KB/s of several connections that send all the time, plus those of other connections of the link.

    The bytes of other connections are read from Toxiproxy's counter for this rate. If the measuring connections
    received more than it counted, as without such a rate, their bytes are used. The link's round trip does not count as
    time.
    """
    size = 1000 * min(MOST_KB, round(int(body.attributes["rate"]) * SECONDS / LANES))
    down = body.stream == "downstream"
    with ExitStack() as stack, ThreadPoolExecutor(LANES) as pool:
        lanes = [link.connect(RATE_ANSWER_SECONDS) for _ in range(LANES)]
        for lane in lanes:
            stack.callback(lane.close)
        if not down:
            size = min(size, *(lane.longest_question() for lane in lanes))
        before, began = link.carried(body), clock.timer()
        list(pool.map(lambda lane: lane.long_answer(size) if down else lane.long_question(size), lanes))
        seconds = clock.timer() - began - round_trip_ms / 1000
        carried = (link.carried(body) - before) / 1000
    return max(carried, LANES * size / 1000) / max(seconds, SHORTEST_SECONDS)


def bare_links(lab: Lab) -> Proof:
    """Prove that no link has a toxic."""
    slowed = [link.name for link in lab.topology.links if lab.link(link.name).toxics()]
    return Proof.same("the links have no toxics", ", ".join(slowed) or "no toxic", "no toxic")
