"""A witness that reads again and again: states that no log and no counter records, or a log that a node keeps."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.observation import Observation
from replication_lab.world import clock, requests_made
from replication_lab.world.docker.conversation import Conversation
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server
from replication_lab.world.requests_made import OwnRequest, made

EVERY_SECONDS, ANSWER_SECONDS = 0.5, 2.0
# What is asked at a node: a server, or a command that runs there.
Asked = TypeVar("Asked")
# Returns what is not as it should be now, in words; LabError of a node that does not answer.
Reading = Callable[[Asked], Sequence[str]]
# Returns in words what a line of a service's log tells, with its moment of the clock's timer; empty for nothing.
Told = Callable[[str, float, str], str]
TELLS = (Path(__file__).parent / "tells.sh").read_text()
# By how much a program may tell a change later than it was made: a machine's only CPU may be busy.
LATE_SECONDS = 1.0
# How long a container that the lab has started makes its rules, and a machine brings its disk up.
STARTS, START_SECONDS = ("start", "restart"), 60


class Following(str):
    """What may follow from a change that the lab itself made to a link, a node or a disk; it is contrary before one."""

    __slots__ = ()


class AtWork(str):
    """What counts only after the load has begun; before that, the lab may still be arranging it.

    A reading that began before the load does not count: what it found may have ended before the load.
    """

    __slots__ = ()


def server_of(lab: Lab, node: str) -> Server:
    """Return a connection of its own to a node's server."""
    return lab.node(node).server().answering_within(ANSWER_SECONDS)


class Sampled(Generic[Asked]):
    """Reads again and again from its making on, each node in a thread of its own."""

    def __init__(  # noqa: PLR0913, PLR0917 - what is read, where, how often, and what is logged
        self,
        obligation: str,
        lab: Lab,
        readings: Mapping[str, Reading[Asked]],
        reach: Callable[[Lab, str], Asked] = server_of,  # type: ignore[assignment]  # of readings of servers
        answers: Callable[[Lab, str], bool] = lambda *_: False,
        logged: Mapping[str, Told] | None = None,
        every: float = 0,
    ) -> None:
        """Begin to read; `readings` are by node.

        `reach` returns what a node's reading asks. Where `answers` says that a node should answer and it does not, it
        is not observed. `logged` tells the changes in logs, by service. `every` is the pause.
        """
        self._logs = [(LogFromNow(lab, service), told) for service, told in (logged or {}).items()]
        # A query to a frozen node locks its connection.
        self.obligation, self._lab, self._reach, self._answers = obligation, lab.another(), reach, answers
        self._contrary: list[tuple[float, str]] = []
        self._gap_s, self._stop, self._began, self._every = 0.0, threading.Event(), clock.timer(), every
        # When each node answered last; None of one that does not answer.
        self._last: dict[str, float | None] = dict.fromkeys(readings, self._began)
        self._threads = [
            threading.Thread(target=self._read, args=(node, reading), name=f"reads {node}", daemon=True)
            for node, reading in readings.items()
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, node: str, reading: Reading[Asked]) -> None:
        asked: Asked | None = None
        while not self._stop.is_set():
            try:
                asked = asked or self._reach(self._lab, node)
                began, wrong, now = clock.timer(), reading(asked), clock.timer()
            except LabError:
                # A node that a fault ended or froze does nothing that would have to be seen. It may return by another
                # port.
                self._lab.refresh()
                asked = None
                if not self._answers(self._lab, node):
                    self._last[node] = None
            else:
                self._gap_s = max(self._gap_s, now - (self._last[node] or now))
                self._contrary += [(began if isinstance(each, AtWork) else now, each) for each in wrong]
                self._last[node] = now
            clock.pause(self._every or EVERY_SECONDS, unless=self._stop)

    def observation(self, zero: float) -> Observation:
        """Return what was seen until now; `zero` is the moment of the clock's timer that times are counted from."""
        # A thread that ended by an error leaves a gap until now.
        now = clock.timer()
        gaps = [now - last for last in self._last.values() if last is not None]
        disturbed = min(
            (one.began for one in requests_made.made() if one.disturbs and one.began >= zero), default=float("inf")
        )
        contrary = [
            (at, what)
            for at, what in [*self._contrary, *(each for log, told in self._logs for each in log.changes(told))]
            if _counts(at, what, zero, disturbed)
        ]
        return Observation.between(self.obligation, zero, (self._began, now), contrary, max([self._gap_s, *gaps]))

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(ANSWER_SECONDS)


def _counts(at: float, what: str, zero: float, disturbed: float) -> bool:
    """Return whether something is contrary at a moment; `disturbed` is that of the lab's first change since `zero`."""
    if isinstance(what, Following):
        return zero <= at < disturbed
    return at >= zero or not isinstance(what, AtWork)


class LogFromNow:
    """What a service logs from now on, by its place in the log, whatever clocks do; LabError if there is no log."""

    def __init__(self, lab: Lab, service: str) -> None:
        self._lab, self._name, self._container = lab, service, lab.service(service).container.id
        self._before = lab.service(service).dated_logs()

    def changes(self, told: Told) -> list[tuple[float, str]]:
        """Return what the new lines tell, each with its moment of the clock's timer, or why that is not known."""
        try:
            return [(at, said) for at, line in self._new_lines() if (said := told(self._name, at, line))]
        except LabError as error:
            return [(clock.timer(), f"not known what {self._name} logged: {error.found}")]

    def _new_lines(self) -> list[tuple[float, str]]:
        found = self._lab.service(self._name)
        # A container that the lab has recreated begins a new log.
        before = self._before if found.container.id == self._container else []
        log, now, wall = found.dated_logs(), clock.timer(), time.time()
        if log[: len(before)] != before:
            raise LabError(f"the log of {self._name} had lost its first lines", "a log that only grows")
        return [(now - (wall - at), line) for at, line in log[len(before) :]]


def told_by(
    obligation: str, lab: Lab, readings: Mapping[str, "Changes[Conversation]"], command: Callable[[str], list[str]]
) -> Sampled[Conversation]:
    """Return the witness of these services; `command` returns what tells the changes of each of them.

    One that runs and does not answer leaves a gap: it may change meanwhile. One that the lab stops, freezes or starts
    need not answer.
    """

    def reach(of: Lab, service: str) -> Conversation:
        found = of.service(service)
        return Conversation(found.name, "exec", "-i", str(found.container.id), *command(service), site=found.site)

    def runs(of: Lab, service: str) -> bool:
        since = clock.timer() - START_SECONDS
        changed = {one.what for one in made() if one.began > since}
        found = of.containers.get(service)
        return found is not None and str(found.id) not in changed and of.service(service).state()[0] == "running"

    return Sampled(obligation, lab, readings, reach, runs)


@dataclass
class Changes(Generic[Asked]):
    """Changes of one service that this process did not cause by a request of its own.

    `changes` returns what has changed, in words; `explains` whether a request of this process may cause it. A start of
    its own `container`, if it has one, does so for a while.
    """

    changes: Callable[[Asked], list[str]]
    explains: Callable[[OwnRequest], bool]
    container: str = ""
    _last: float = field(default_factory=clock.timer)

    def __call__(self, asked: Asked) -> list[str]:
        since, found = self._last, self.changes(asked)
        self._last = clock.timer()
        return found if found and not self._is_own(since, self._last) else []

    def _is_own(self, since: float, now: float) -> bool:
        starts = [one for one in made() if one.kind in STARTS and one.what == self.container]
        return any(one.began > now - START_SECONDS for one in starts) or any(
            one.overlaps(since - LATE_SECONDS, now) for one in made() if self.explains(one)
        )
