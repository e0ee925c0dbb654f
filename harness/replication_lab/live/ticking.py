"""A thread that does something again and again until it is stopped; what hangs in it stops nothing else."""

import threading
from collections.abc import Callable

from replication_lab.world import clock

END_SECONDS = 1.0


class Ticking:
    """Calls `act` every `every` seconds, at once after `wake`, and never twice at the same time."""

    def __init__(self, name: str, act: Callable[[], object], every: float):
        self.name, self.act, self.every = name, act, every
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def _run(self) -> None:
        due = clock.timer()
        while not self._stop.is_set():
            self._wake.clear()
            self.act()
            # A tick that took too long is not made up for.
            due = max(due + self.every, clock.timer())
            clock.pause(due - clock.timer(), unless=self._wake)

    def stop(self) -> None:
        """Let it end after what it does now; do not wait long for what hangs."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(END_SECONDS)
