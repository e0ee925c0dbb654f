"""The probe of an application: a command in one of its containers, or a URL, asked all through a drill."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.application import Application, Probed
from replication_lab.world import clock, web
from replication_lab.world.docker.lab import Lab

# A probe without an answer after this time has failed. The pause keeps probes from being a load of their own.
ANSWER_SECONDS, PAUSE_SECONDS = 10, 0.1


@dataclass(frozen=True)
class Probe:
    """A probe of an application in a lab; `service` runs the command, and is empty for a URL."""

    lab: Lab
    text: str
    service: str = ""

    def once(self) -> bool:
        """Probe once and return True; LabError if it fails."""
        if self.service:
            self.lab.service(self.service).run("sh", "-c", self.text)
        else:
            web.fetch(self.text, ANSWER_SECONDS)
        return True

    def check(self) -> None:
        """Refuse a probe that fails without any fault."""
        try:
            self.once()
        except LabError as error:
            where = f"in {self.service}" if self.service else "from this machine"
            raise LabError(
                f"the probe fails before any fault: {error.found}",
                f"a command that succeeds {where}, or a URL that answers",
                f"./lab drill --lab {self.lab.name} --probe 'curl -fsS http://localhost/health'",
            ) from error

    @contextmanager
    def watching(self, began: float) -> Iterator[Application]:
        """Probe all through the block, one after another; `began` is the moment of the clock's timer that is zero."""
        found, stop = Application(self.text, self.service), threading.Event()
        prober = threading.Thread(target=self._watch, args=(found.probed, began, stop), daemon=True, name="probe")
        prober.start()
        try:
            yield found
        finally:
            stop.set()
            prober.join(ANSWER_SECONDS)

    def _watch(self, found: list[Probed], began: float, stop: threading.Event) -> None:
        while not stop.is_set():
            at = clock.timer()
            ok = bool(clock.soon(self.once, ANSWER_SECONDS))
            found.append(Probed(round(at - began, 4), round(clock.timer() - at, 4), ok))
            clock.pause(PAUSE_SECONDS, unless=stop)
