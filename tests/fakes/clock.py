"""Time of the fake world."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from replication_lab.model.core.errors import LabError
from replication_lab.world.clock import STALLED_SECONDS

REAL_SECONDS = 0.001


class FakeClock:
    """Time that passes only during waits. Every thread has its own, as every client of a server has."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def timer(self) -> float:
        """Return seconds, in place of `clock.timer`."""
        return getattr(self._of_thread, "seconds", 0.0)

    def reach(self, seconds: float) -> None:
        self._of_thread.seconds = seconds

    def pause(self, seconds: float, unless: threading.Event | None = None) -> None:
        """Wait, in place of `clock.pause`. A thread that can be stopped leaves the processor to others meanwhile."""
        if unless is not None:
            unless.wait(REAL_SECONDS)
        self.reach(self.timer() + seconds)

    def wait_until(
        self,
        condition: Callable[[], Any],
        what: str,
        seconds: float = STALLED_SECONDS,
        every: float = 0.05,
        hint: str = "",
    ) -> Any:
        """Wait, in place of `clock.wait_until`."""
        until = self.timer() + seconds
        while self.timer() <= until:
            if found := condition():
                return found
            self.pause(every)
        raise LabError(f"waited {seconds:g} s and {what} did not come", what, hint)

    def of_each(self, act: Callable[[Any], Any], parts: Iterable[Any]) -> list[Any]:
        """Call one after another, in place of `at_once.of_each`; each call takes time of its own, as in a thread."""
        now, answers, errors = self.timer(), [], []
        for part in parts:
            self.reach(now)
            try:
                answers.append(act(part))
            except Exception as error:
                errors.append(error)
        self.reach(now)
        if errors:
            raise errors[0]
        return answers
