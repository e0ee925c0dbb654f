"""The round trip of each link, measured all the time by a connection across it, in a thread of its own."""

from collections import deque
from statistics import median

from replication_lab.live.ticking import Ticking
from replication_lab.model.core.errors import LabError
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab

EVERY_SECONDS, SOON_SECONDS = 1.0, 0.15
# The round trips whose median is shown; a change of the link begins anew, with this many in quick succession.
SHOWN, SOON = 5, 3


class LinkWatch:
    """A link's newest round trips since its condition was changed."""

    def __init__(self, lab: Lab, name: str):
        self._lab, self.name = lab.another(), name
        self._probe: RoundTrip | None = None
        self._trips: deque[float | None] = deque(maxlen=SHOWN)
        self._change = 0
        self._seen_at = clock.timer()
        self.ticking = Ticking(f"round trips of {name}", self._look, EVERY_SECONDS)

    def changed(self) -> None:
        """Forget what was measured under the condition before."""
        self._change += 1
        self._trips.clear()
        self.ticking.wake()

    @property
    def round_trip_ms(self) -> float | None:
        """The median of the newest round trips, in ms; None if the newest attempt got no answer."""
        trips = list(self._trips)
        known = [trip for trip in trips if trip is not None]
        late = clock.timer() - self._seen_at > 2 * EVERY_SECONDS + 1
        return None if late or not trips or trips[-1] is None else round(median(known), 2)

    def _look(self) -> None:
        change = self._change
        trip = self._trip()
        self._seen_at = clock.timer()
        if change != self._change:
            # The condition changed while the ping was on its way.
            self.ticking.wake()
            return
        self._trips.append(trip)
        self.ticking.every = SOON_SECONDS if len(self._trips) < SOON and trip is not None else EVERY_SECONDS

    def _trip(self) -> float | None:
        try:
            if self._probe is None:
                self._probe = RoundTrip(self._lab.link(self.name))
            trip = self._probe.ping()
        except LabError:
            self._lab.refresh()
            return None
        if trip is None:
            self._probe.close()
            self._probe = None
        return trip

    def stop(self) -> None:
        self.ticking.stop()
        if self._probe is not None:
            self._probe.close()
