"""What viewers did, as bands for the charts and as clicks for a drill."""

import threading
from dataclasses import dataclass

from replication_lab.live.clicked import LINK, NODE, Clicked
from replication_lab.model.live.view import HISTORY_SECONDS, Span

# A slider that is dragged changes a link many times: conditions that last less than this are not kept.
KEPT_SECONDS = 1.0
UNDONE_BY = {"start": ("kill", "stop"), "resume": ("pause",)}


@dataclass
class Happening:
    """A fault, a condition or an action, and whether it was seen to act."""

    id: int
    kind: str
    target: str
    action: str
    begin: float
    end: float | None = None
    seen: bool | None = None

    @property
    def label(self) -> str:
        return f"{self.target} {self.action}" if self.kind == LINK else f"{self.action} {self.target}"


class Happenings:
    """All of them, in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[Happening] = []
        self._number = 0

    def condition(self, link: str, asked: str, at: float, is_usual: bool) -> None:
        """Note that a link has another condition; the usual one only ends the one before."""
        with self._lock:
            self._end(link, at)
            self._all = [
                each for each in self._all if each.target != link or _lasted(each, at) >= KEPT_SECONDS or not each.end
            ]
            if not is_usual:
                self._begin(LINK, link, asked, at)

    def action(self, node: str, action: str, at: float, done: bool, seen: bool | None = None) -> None:
        """Note the begin of an action on a node, or its end; `start` and `resume` end what was done before."""
        with self._lock:
            if done:
                self._done(node, action, at, seen)
            else:
                self._begin(NODE, node, action, at)

    def _done(self, node: str, action: str, at: float, seen: bool | None) -> None:
        for each in self._open(node):
            if each.action == action:
                each.seen = seen
                # A fault lasts until it is undone, unless it was refused.
                if action not in ("kill", "stop", "pause") or not seen:
                    each.end = at
            elif seen and each.action in UNDONE_BY.get(action, ()):
                each.end = at

    def verified(self, target: str, seen: bool | None) -> None:
        """Note whether the condition of a link that acts now was seen to act."""
        with self._lock:
            for each in self._open(target):
                each.seen = seen

    def _begin(self, kind: str, target: str, action: str, at: float) -> None:
        self._all.append(Happening(self._number, kind, target, action, round(at, 3)))
        self._number += 1

    def _end(self, target: str, at: float) -> None:
        for each in self._open(target):
            each.end = round(at, 3)

    def _open(self, target: str) -> list[Happening]:
        return [each for each in self._all if each.target == target and each.end is None]

    # -- shown -----------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return len(self._all)

    def spans(self, at: float) -> list[Span]:
        """Return those that have not ended, and those that ended within the history."""
        with self._lock:
            return [
                Span(
                    id=each.id,
                    begin=each.begin,
                    end=each.end,
                    label=each.label,
                    kind=each.kind,
                    target=each.target,
                    seen=each.seen,
                )
                for each in self._all
                if each.end is None or each.end > at - HISTORY_SECONDS
            ]

    def clicks(self, at: float) -> list[Clicked]:
        """Return all that was done as clicks; what has not ended ends now, and an action that failed is left out."""
        with self._lock:
            return [
                Clicked(
                    begin=each.begin,
                    end=at if each.end is None else each.end,
                    kind=each.kind,
                    target=each.target,
                    action=each.action,
                )
                for each in self._all
                if each.kind == LINK or each.seen is not False
            ]


def _lasted(each: Happening, at: float) -> float:
    return (at if each.end is None else each.end) - each.begin
