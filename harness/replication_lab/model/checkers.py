"""What a history and the final rows of every copy say: lost, phantom, twice, diverged, stale, stalled. Pure functions.

A checker that fails says so in place of its figure (`checked`): what it would have found is unknown, never good.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from statistics import median

from replication_lab.model.history import Attempt, Copy, Look, Outcome

Figures = dict[str, float | str]
Window = tuple[float, float]
Checker = Callable[[], float | None]


# --- rows -------------------------------------------------------------------------------------------------------------


def lost(history: Iterable[Attempt], copies: Sequence[Copy]) -> set[int]:
    """Rows that were acknowledged and are missing on some copy."""
    acknowledged = {attempt.id for attempt in history if attempt.acknowledged}
    return set().union(*(acknowledged - set(copy.ids) for copy in copies))


def lost_seconds(history: Sequence[Attempt], copies: Sequence[Copy]) -> float:
    """The recovery point: seconds from when the first lost row was sent until the last one was acknowledged."""
    gone = lost(history, copies)
    found = [attempt for attempt in history if attempt.id in gone]
    return max(one.ended for one in found) - min(one.invoked for one in found) if found else 0.0


def phantoms(history: Iterable[Attempt], copies: Sequence[Copy]) -> set[int]:
    """Rows on some copy whose client was told that they had failed, or that nobody ever sent."""
    possible = {attempt.id for attempt in history if attempt.outcome is not Outcome.FAILED}
    return set().union(*(set(copy.ids) - possible for copy in copies))


def duplicates(copies: Sequence[Copy]) -> set[int]:
    """Ids that some copy holds more than once."""
    return {number for copy in copies for number, times in Counter(copy.ids).items() if times > 1}


def diverged(copies: Sequence[Copy]) -> list[str]:
    """The nodes whose rows, checksum or counter differ from those of the first copy."""
    first, *others = copies
    return [copy.node for copy in others if _content(copy) != _content(first)]


def _content(copy: Copy) -> tuple[list[int], int | None, int | None]:
    return sorted(copy.ids), copy.checksum, copy.counter


def committed_unknown(history: Iterable[Attempt], copies: Sequence[Copy]) -> set[int]:
    """Rows whose client got no answer and which are on every copy: they had been committed."""
    unknown = {attempt.id for attempt in history if attempt.outcome is Outcome.UNKNOWN}
    return unknown.intersection(*(copy.ids for copy in copies))


def miscounted(copies: Sequence[Copy]) -> int:
    """By how much the hot row's counter differs from the rows beside which it was counted up; the worst copy."""
    return max(abs(_counter(copy) - len(copy.ids)) for copy in copies)


def _counter(copy: Copy) -> int:
    if copy.counter is None:
        raise ValueError(f"the hot row of {copy.node} was not read")
    return copy.counter


def ahead(copies: Sequence[Copy]) -> dict[str, int]:
    """How many rows a copy holds that the copy which it came from does not, by node."""
    held = {copy.node: set(copy.ids) for copy in copies}
    return {copy.node: len(held[copy.node] - held[copy.source]) for copy in copies if copy.source in held}


# --- reads ------------------------------------------------------------------------------------------------------------


def stale_reads(history: Iterable[Attempt], looks: Iterable[Look]) -> list[Look]:
    """Looks that missed a row which was acknowledged, to whomever, before they began."""
    newest = _Newest(history)
    return [look for look in looks if _number(look) < newest.acknowledged(look.writer, look.invoked)]


def own_writes_missed(history: Iterable[Attempt], looks: Iterable[Look]) -> list[Look]:
    """Looks of clients that missed a row of their own, which had been acknowledged to them: no read-your-write."""
    return [look for look in stale_reads(history, looks) if look.reader == look.writer]


def backward_reads(looks: Iterable[Look]) -> list[Look]:
    """Looks that missed a row which the same reader had seen there before: no monotonic reads."""
    seen: dict[tuple[int, int, str], int] = {}
    found = []
    for look in looks:
        key = (look.reader, look.writer, look.node)
        if _number(look) < seen.get(key, NOTHING):
            found.append(look)
        seen[key] = max(_number(look), seen.get(key, NOTHING))
    return found


def phantom_reads(looks: Iterable[Look], copies: Sequence[Copy]) -> set[int]:
    """Rows that somebody saw and that are on no copy at the end."""
    if not copies:
        _no_copies()
    kept = set().union(*(copy.ids for copy in copies))
    return {look.seen for look in looks if look.seen is not None} - kept


# Below every id.
NOTHING = -1


def _number(look: Look) -> int:
    return NOTHING if look.seen is None else look.seen


class _Newest:
    """The newest acknowledged row of each client at any moment; ids of a client grow."""

    def __init__(self, history: Iterable[Attempt]):
        self._rows: dict[int, tuple[list[float], list[int]]] = {}
        for attempt in sorted((one for one in history if one.acknowledged), key=lambda one: one.ended):
            ends, ids = self._rows.setdefault(attempt.client, ([], []))
            ends.append(attempt.ended)
            ids.append(max(attempt.id, ids[-1] if ids else NOTHING))

    def acknowledged(self, client: int, before: float) -> int:
        ends, ids = self._rows.get(client, ([], []))
        place = bisect_left(ends, before)
        return ids[place - 1] if place else NOTHING


# --- time -------------------------------------------------------------------------------------------------------------


def stall(history: Iterable[Attempt], load: Window) -> float:
    """The longest time in seconds within the load in which nothing was acknowledged, its beginning and end included."""
    ends = sorted(attempt.ended for attempt in history if attempt.acknowledged)
    marks = [load[0], *(end for end in ends if load[0] <= end <= load[1]), load[1]]
    return max(later - earlier for earlier, later in pairwise(marks))


def back_after(history: Iterable[Attempt], moment: float) -> float | None:
    """Seconds from `moment` until a statement that was sent after it was acknowledged, or None where none was."""
    ends = [attempt.ended for attempt in history if attempt.acknowledged and attempt.invoked >= moment]
    return min(ends) - moment if ends else None


def within(history: Iterable[Attempt], windows: Sequence[Window]) -> list[Attempt]:
    """The attempts that were sent within one of the windows."""
    return [attempt for attempt in history if any(begin <= attempt.invoked <= end for begin, end in windows)]


def slowed(history: Sequence[Attempt], windows: Sequence[Window]) -> float | None:
    """The median latency of what was sent within the windows over that of what ended before the first of them."""
    before = [one.latency for one in history if one.acknowledged and one.ended < windows[0][0]]
    during = [one.latency for one in within(history, windows) if one.acknowledged]
    return median(during) / median(before) if before and during else None


def kept_rate(history: Sequence[Attempt], windows: Sequence[Window]) -> float | None:
    """Acknowledgements a second of what was sent within the windows, over those of before the first of them.

    A server that is throttled serves at full speed, and then nobody for a while: its median latency does not tell.
    """
    sent = [one.invoked for one in history]
    before = windows[0][0] - min(sent) if sent else 0.0
    during = sum(end - begin for begin, end in windows)
    earlier = sum(one.acknowledged and one.ended < windows[0][0] for one in history)
    if before <= 0 or during <= 0 or not earlier:
        return None
    return (sum(one.acknowledged for one in within(history, windows)) / during) / (earlier / before)


def longest(history: Iterable[Attempt]) -> float | None:
    """Seconds that the slowest acknowledged statement took, or None where none was."""
    return max((attempt.latency for attempt in history if attempt.acknowledged), default=None)


# --- all of it --------------------------------------------------------------------------------------------------------


def rows(history: Sequence[Attempt], copies: Sequence[Copy]) -> tuple[Figures, list[str]]:
    """The figures of rows, and what could not be found out, in words."""
    found: dict[str, Checker] = {
        "lost": lambda: len(lost(history, copies)),
        "lost_s": lambda: lost_seconds(history, copies),
        "phantoms": lambda: len(phantoms(history, copies)),
        "duplicates": lambda: len(duplicates(copies)),
        "diverged": lambda: len(diverged(copies)),
        "unknown_committed": lambda: len(committed_unknown(history, copies)),
    }
    if any(copy.counter is not None for copy in copies):
        found["miscounted"] = lambda: miscounted(copies)
    if any(copy.source for copy in copies):
        found |= {f"ahead.{node}": _counted(many) for node, many in ahead(copies).items()}
    return checked(found if copies else dict.fromkeys(found, _no_copies))


def _no_copies() -> float:
    raise ValueError("no copy was read")


def reads(
    history: Sequence[Attempt], looks: Sequence[Look], copies: Sequence[Copy], mended: float
) -> tuple[Figures, list[str]]:
    """The figures of what clients read; none where nobody looked.

    Rows that are gone in the end count apart where they were seen only after the faults had been `mended`: an old
    source that is started again shows what it recovers, before it is made to give that up.
    """
    if not looks:
        return {}, []
    before = [look for look in looks if look.ended <= mended]
    return checked(
        {
            "looks": lambda: len(looks),
            "stale_reads": lambda: len(stale_reads(history, looks)),
            "own_writes_missed": lambda: len(own_writes_missed(history, looks)),
            "backward_reads": lambda: len(backward_reads(looks)),
            "phantom_reads": lambda: len(phantom_reads(before, copies)),
            "recovered_reads": lambda: len(phantom_reads(looks, copies) - phantom_reads(before, copies)),
        }
    )


def service(history: Sequence[Attempt], load: Window, windows: Sequence[Window]) -> tuple[Figures, list[str]]:
    """The figures of time and of answers: over all nodes (NAME), and for each (NAME.NODE).

    `windows` are the times in which a fault acted; during.* counts what was sent within them.
    """
    parts: dict[str, Checker] = {}
    for node in ("", *sorted({attempt.node for attempt in history})):
        own = [attempt for attempt in history if node in ("", attempt.node)]
        end = f".{node}" if node else ""
        parts[f"stall_s{end}"] = partial(stall, own, load)
        parts[f"longest_s{end}"] = partial(longest, own)
        parts |= {f"{name}{end}": _counted(many) for name, many in counts(own).items()}
        if windows:
            parts[f"service_back_s{end}"] = partial(back_after, own, windows[0][0])
            parts[f"slowed{end}"] = partial(slowed, own, windows)
            parts[f"kept_rate{end}"] = partial(kept_rate, own, windows)
            during = counts(within(own, windows))
            parts |= {f"during{end}.{name}": _counted(many) for name, many in during.items()}
    return checked(parts)


def _counted(many: int) -> Checker:
    return lambda: many


def counts(history: Iterable[Attempt]) -> dict[str, int]:
    """How many attempts ended in which way, and with which error: {acknowledged, failed, unknown, error.CODE}."""
    history = list(history)
    outcomes = Counter(attempt.outcome.value for attempt in history)
    errors = Counter(f"error.{attempt.code}" for attempt in history if attempt.code is not None)
    return {**{outcome.value: outcomes[outcome.value] for outcome in Outcome}, **dict(sorted(errors.items()))}


def checked(checkers: Mapping[str, Checker]) -> tuple[Figures, list[str]]:
    """The figures of checkers by name, those without an answer left out, and a sentence for each that failed."""
    figures: Figures = {}
    failures: list[str] = []
    for name, check in checkers.items():
        try:
            found = check()
        except Exception as error:  # whatever it is: an unknown figure must not take the others with it
            failures.append(f"the checker of {name} failed: {type(error).__name__}: {error}")
            continue
        if found is not None:
            figures[name] = round(found, 3)
    return figures, failures
