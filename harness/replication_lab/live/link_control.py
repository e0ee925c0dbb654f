"""The condition of a link as viewers change it: put at once, the newest one only, and verified while it acts."""

import threading
from collections.abc import Callable

from replication_lab.faults.condition import NONE, Condition, toxic_of
from replication_lab.faults.cut import Cut
from replication_lab.lab.status import called
from replication_lab.live.link_watch import LinkWatch
from replication_lab.model.errors import LabError
from replication_lab.model.live import CUT, Link
from replication_lab.model.proof import Proof
from replication_lab.model.topology import Link as LinkOfTopology
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab

# Changes that follow each other faster than this, as those of a slider, are put together.
TOGETHER_SECONDS = 0.08


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
        self.was = "+".join(called([toxic["name"] for toxic in self._lab.link(link.name).toxics()])) or NONE
        self.asked, self.says = self.was, ""
        self.seen: bool | None = None
        self._wanted: str | None = self.was
        self._version = 0
        self._condition: Condition | None = None
        self._cut: Cut | None = None
        self._is_cut = False
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

    def view(self) -> Link:
        return Link(
            name=self.name,
            source=self._model.source,
            target=self._model.target,
            asked=self.asked,
            was=self.was,
            measured_ms=self.watch.round_trip_ms,
            seen=self.seen,
            says=self.says,
            busy=self.seen is None,
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
                self._put(wanted)
            except LabError as error:
                self.seen, self.says = False, error.found
            self.watch.changed()
            self._changed(self.name, wanted)
            self._verify.set()

    def _put(self, wanted: str) -> None:
        if wanted == CUT:
            self._made_cut().inject()
            self._is_cut = True
            return
        if self._is_cut:
            self._made_cut().recover()
            self._is_cut = False
        condition = self._made_condition()
        if wanted == self.was:
            condition.recover()
        else:
            condition.change(wanted)

    def _made_condition(self) -> Condition:
        """Return the fault; LabError if the link did not answer so far, without which nothing could be proved."""
        if self._condition is None:
            self._condition = Condition(self._lab, [self.name])
        return self._condition

    def _made_cut(self) -> Cut:
        if self._cut is None:
            self._cut = Cut(self._lab, [self.name])
        return self._cut

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

    def _proofs(self) -> list[Proof]:
        # Both are made here first, so that the first change of a link need not wait for them.
        condition, cut = self._made_condition(), self._made_cut()
        if self.asked == CUT:
            return cut.verify()
        if self.asked != self.was:
            return condition.verify()
        return condition.verify_recovered()

    # -- ended -----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Restore what the link had, and end."""
        self._stop.set()
        self._ask.set()
        self._verify.set()
        self.watch.ticking.stop()
        if self._cut is not None and self._is_cut:
            self._cut.recover()
        if self._condition is not None and self.asked != self.was:
            self._condition.recover()
