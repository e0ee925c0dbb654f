"""The round trip across a link: the far end's answer to a ping, by a connection that crosses the link itself."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from statistics import median

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.toxic import ToxicBody
from replication_lab.model.record.measurement import Spread
from replication_lab.probes.link_rate import sum_of_rates
from replication_lab.world import clock
from replication_lab.world.packets.link import RunningLink

PINGS = 5
PAUSE_SECONDS = 0.02
# Longer than any round trip and any bulk answer that is requested here; a black hole costs a probe this long.
ANSWER_SECONDS = 3


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
        return answered[0] if answered[0] is not None else self._answer_anew(seconds)

    def _answer_anew(self, seconds: float) -> float:
        """Return the ms until a new connection was usable; TimeoutError if an answer did not come in time."""
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
