"""A link as viewers see and change it: its round trips, and its condition, put at once and verified while it acts."""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import closing
from statistics import median

from replication_lab.faults.condition import NONE, LinkCondition, toxic_of
from replication_lab.faults.cut import Cut
from replication_lab.faults.fault import proofs_of, proofs_of_recovery
from replication_lab.lab.status import called
from replication_lab.live.ticking import Ticking
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.topology import Link as LinkOfTopology
from replication_lab.model.live.view import CUT, ViewedLink
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.world import clock, lock
from replication_lab.world.docker.lab import Lab

# Changes that follow each other faster than this, as those of a slider, are put together.
TOGETHER_SECONDS = 0.08
# Seconds until a link that nobody changed, and whose proof failed, is measured again.
AGAIN_SECONDS = 2
# A change that is being put, and a proof, end within this time.
END_SECONDS = 5


class LinkControl:
    """A link and the two faults that change it: another condition, or a cut.

    A change is put by one thread and verified by another one, because a proof takes several round trips, and a slider
    does not wait for it. `changed` is called with the new condition as soon as it acts, `verified` with whether it was
    seen to.
    """

    def __init__(
        self,
        lab: Lab,
        link: LinkOfTopology,
        changed: Callable[[str, str], object],
        verified: Callable[[str, bool], object],
    ):
        self.name, self._model, self._lab, self._changed = link.name, link, lab.another(), changed
        self._verified = verified
        self.watch = LinkWatch(lab, link.name)
        self.was = "+".join(called([toxic.name for toxic in self._lab.link(link.name).toxics()])) or NONE
        self.asked, self.says = self.was, ""
        self.seen: bool | None = None
        self._wanted: str | None = self.was
        self._version = 0
        self._making = threading.Lock()
        self._made: tuple[LinkCondition, Cut] | None = None
        self._has_other = self._was_changed = False
        self._stop = threading.Event()
        self._ask, self._verify = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._applying, name=f"change {self.name}", daemon=True),
            threading.Thread(target=self._verifying, name=f"verify {self.name}", daemon=True),
        ]

    def start(self) -> None:
        self.watch.ticking.start()
        for thread in self._threads:
            thread.start()
        self._verify.set()

    def view(self, carries: bool) -> ViewedLink:
        return ViewedLink(
            name=self.name,
            source=self._model.source,
            target=self._model.target,
            asked=self.asked,
            was=self.was,
            measured_ms=self.watch.round_trip_ms,
            seen=self.seen,
            says=self.says,
            busy=self.seen is None,
            carries=carries,
        )

    def ask(self, condition: str | None) -> str:
        """Let the link have this condition soon; return its name. LabError for one that does not exist."""
        wanted = self.was if condition is None else condition
        # By its shortest spelling, so that the same condition has the same name in the charts.
        name = wanted if wanted in (CUT, NONE, self.was) else toxic_of(wanted).name
        self._wanted = name
        self._ask.set()
        return name

    # -- put -------------------------------------------------------------------------------------------------------

    def _applying(self) -> None:
        while self._ask.wait() and not self._stop.is_set():
            clock.pause(TOGETHER_SECONDS, unless=self._stop)
            self._ask.clear()
            wanted = self._wanted or self.was
            self._version += 1
            self.asked, self.seen, self.says = wanted, None, ""
            try:
                with lock.lab_held(self._lab.name, "lab live"):
                    self._put(wanted)
            except lock.LabTaken as error:
                # The link is as it was: nothing is to be verified.
                self.seen, self.says = False, error.found
                self._verified(self.name, False)
                continue
            except LabError as error:
                self.seen, self.says = False, error.found
            self.watch.changed()
            self._changed(self.name, wanted)
            self._verify.set()

    def _put(self, wanted: str) -> None:
        condition, cut = self._faults(changes=True)
        if wanted == CUT:
            cut.inject()
            return
        cut.recover()
        if wanted == self.was:
            self._restore(condition)
        else:
            self._has_other = True
            condition.change(wanted)

    def _restore(self, condition: LinkCondition) -> None:
        condition.recover()
        self._has_other = False

    def _faults(self, *, changes: bool = False) -> tuple[LinkCondition, Cut]:
        """Return the faults, made before the first change, since they keep what the link had.

        LabError if the link did not answer so far, without which nothing could be proved.
        """
        with self._making:
            self._was_changed |= changes
            if self._made is None:
                self._made = LinkCondition(self._lab, [self.name]), Cut(self._lab, [self.name])
            return self._made

    # -- verified --------------------------------------------------------------------------------------------------

    def _verifying(self) -> None:
        while self._verify.wait() and not self._stop.is_set():
            self._verify.clear()
            version = self._version
            try:
                proofs = self._proofs()
            except LabError as error:
                proofs = [Proof(f"{self.name} is {self.asked}", error.found, False)]
            if version == self._version:
                wrong = [proof.doubt for proof in proofs if proof.doubt]
                self.says = "; ".join(wrong or [proof.found for proof in proofs])
                self.seen = not wrong
                self._verified(self.name, self.seen)
                if wrong and self._forgets():
                    clock.pause(AGAIN_SECONDS, unless=self._stop)
                    self._verify.set()

    def _forgets(self) -> bool:
        """Forget the round trip of an unchanged link and return True: a busy moment may have lengthened it."""
        with self._making:
            if self._was_changed:
                return False
            made, self._made = self._made, None
        for fault in made or ():
            fault.close()
        return True

    def _proofs(self) -> list[Proof]:
        condition, cut = self._faults()
        if self.asked == CUT:
            return proofs_of(cut)
        if self.asked != self.was:
            return proofs_of(condition)
        return proofs_of_recovery(condition)

    # -- ended -----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Restore what the link had, and end."""
        self._stop.set()
        self._ask.set()
        self._verify.set()
        for thread in self._threads:
            if thread.is_alive():
                # A change that is being put would otherwise come after the restoration.
                thread.join(END_SECONDS)
        self.watch.stop()
        if self._made is None:
            return
        condition, cut = self._made
        with closing(condition), closing(cut):
            cut.recover()
            if self._has_other:
                self._restore(condition)


EVERY_SECONDS, SOON_SECONDS = 1.0, 0.15
# The median of this many round trips is shown. After a change of the link they are measured in quick succession.
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
