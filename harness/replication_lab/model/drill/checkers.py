"""Checks of a history and of the final rows of every copy: lost, phantom, duplicate, diverged, stale, stalled rows.

All are pure functions. A checker that fails is reported in place of its figure (`checked`): the figure is unknown,
never good.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from statistics import median
from typing import NamedTuple

from replication_lab.model.drill.history import Attempt, Copy, Outcome, RowLook, TableContent

Figures = dict[str, float | str]
Window = tuple[float, float]
# A figure, or the function that computes it; None for one that there is not.
Checker = float | Callable[[], float | None]


# --- rows -------------------------------------------------------------------------------------------------------------


def lost(history: Iterable[Attempt], copies: Sequence[Copy]) -> set[int]:
    """Return the rows that were acknowledged and are missing on some copy."""
    acknowledged = {attempt.id for attempt in history if attempt.acknowledged}
    return set().union(*(acknowledged - set(copy.ids) for copy in copies))


def rpo_seconds(history: Sequence[Attempt], gone: Container[int]) -> float:
    """Return the recovery point: seconds from sending the first lost row to the acknowledgement of the last one."""
    found = [attempt for attempt in history if attempt.id in gone]
    return max(one.ended for one in found) - min(one.invoked for one in found) if found else 0.0


class Gap(NamedTuple):
    """Rows of one of the user's tables that a copy lacks, though it has the ledger's row of the same transactions.

    `rows` is negative if the copy has more than their statements made. `possible` are the acknowledged transactions
    that may lack theirs, `least` is the least number of them that do. Lost rows of the ledger are counted elsewhere.
    """

    node: str
    table: str
    rows: int
    least: int
    possible: set[int]


def gaps(history: Sequence[Attempt], copies: Sequence[Copy], before: Mapping[str, int]) -> list[Gap]:
    """Return where the user's rows are not those of the transactions that a copy has; `before` are counts of rows.

    A server commits both together, but a filter, or a table that is not there, separates them on a replica.
    """
    gone = lost(history, copies) if before else set()
    found = [_gap(history, copy, table, rows, gone) for copy in copies for table, rows in before.items()]
    return [gap for gap in found if gap.rows]


def _gap(history: Sequence[Attempt], copy: Copy, table: str, before: int, gone: set[int]) -> Gap:
    kept = set(copy.ids)
    changing = [attempt for attempt in history if attempt.id in kept and attempt.rows.get(table)]
    changes = sorted((attempt.rows[table] for attempt in changing), key=abs, reverse=True)
    expected, found = before + sum(changes), copy.tables[table].rows if table in copy.tables else 0
    # Where clients delete, a row that is still there is one that lacks its transaction.
    missing = found - expected if sum(changes) < 0 else expected - found
    possible = {attempt.id for attempt in changing if attempt.acknowledged} - gone
    sums = list(accumulate(map(abs, changes)))
    least = min(bisect_left(sums, missing) + 1, len(sums)) if missing > 0 else 0
    return Gap(copy.node, table, missing, max(least - (len(changing) - len(possible)), 0), possible)


def phantoms(history: Iterable[Attempt], copies: Sequence[Copy]) -> set[int]:
    """Return the rows on some copy that no client sent, or whose insert the server reported as failed."""
    possible = {attempt.id for attempt in history if attempt.outcome is not Outcome.FAILED}
    return set().union(*(set(copy.ids) - possible for copy in copies))


def duplicates(copies: Sequence[Copy]) -> set[int]:
    """Return the ids that some copy holds more than once."""
    return {number for copy in copies for number, times in Counter(copy.ids).items() if times > 1}


def diverged(copies: Sequence[Copy]) -> list[str]:
    """Return the nodes whose rows, checksum or counter differ from those of the first copy."""
    first, *others = copies
    return [copy.node for copy in others if _content(copy) != _content(first)]


def _content(copy: Copy) -> tuple[list[int], int | None, int | None, dict[str, TableContent]]:
    return sorted(copy.ids), copy.checksum, copy.counter, copy.tables


def differing_tables(copies: Sequence[Copy]) -> dict[str, list[str]]:
    """Return, by node, the tables besides the ledger's in which a copy differs from the first one."""
    first, *others = copies
    found = {
        copy.node: sorted(
            name for name in first.tables.keys() | copy.tables if first.tables.get(name) != copy.tables.get(name)
        )
        for copy in others
    }
    return {node: names for node, names in found.items() if names}


def committed_unknown(history: Iterable[Attempt], copies: Sequence[Copy]) -> set[int]:
    """Return the rows whose client got no answer and which are on every copy: these were committed."""
    unknown = {attempt.id for attempt in history if attempt.outcome is Outcome.UNKNOWN}
    return unknown.intersection(*(copy.ids for copy in copies))


def miscounted(copies: Sequence[Copy]) -> int:
    """Return the largest difference on any copy between the hot row's counter and the number of rows.

    Each insert increments the counter in the same transaction.
    """
    return max(abs(_counter(copy) - len(copy.ids)) for copy in copies)


def _counter(copy: Copy) -> int:
    if copy.counter is None:
        raise ValueError(f"the counter of the hot row on {copy.node} was not read")
    return copy.counter


def ahead(copies: Sequence[Copy]) -> dict[str, int]:
    """Return, by node, the number of rows that its copy has and its source's copy lacks."""
    held = {copy.node: set(copy.ids) for copy in copies}
    return {copy.node: len(held[copy.node] - held[copy.source]) for copy in copies if copy.source in held}


# --- reads ------------------------------------------------------------------------------------------------------------


def stale_reads(history: Iterable[Attempt], looks: Iterable[RowLook]) -> list[RowLook]:
    """Return the reads that missed a row which had been acknowledged to any client before they began."""
    newest = _Newest(history)
    return [look for look in looks if _number(look) < newest.acknowledged(look.writer, look.invoked)]


def stale_s(history: Sequence[Attempt], looks: Iterable[RowLook]) -> float:
    """Return the longest time in seconds that a row was acknowledged and missed by a read: the true lag of its node."""
    return round(max(map(_Newest(history).age, stale_reads(history, looks)), default=0.0), 3)


def read_your_writes_violations(history: Iterable[Attempt], looks: Iterable[RowLook]) -> list[RowLook]:
    """Return the reads that missed a row already acknowledged to the same client."""
    return [look for look in stale_reads(history, looks) if look.reader == look.writer]


def monotonic_read_violations(looks: Iterable[RowLook]) -> list[RowLook]:
    """Return the reads that missed a row which the same reader had seen on that node before."""
    seen: dict[tuple[int, int, str], int] = {}
    found = []
    for look in looks:
        key = (look.reader, look.writer, look.node)
        if _number(look) < seen.get(key, NOTHING):
            found.append(look)
        seen[key] = max(_number(look), seen.get(key, NOTHING))
    return found


def phantom_reads(looks: Iterable[RowLook], copies: Sequence[Copy]) -> set[int]:
    """Return the rows that some client read and that are on no copy at the end."""
    if not copies:
        raise ValueError(NO_COPIES)
    kept = set().union(*(copy.ids for copy in copies))
    return {look.seen for look in looks if look.seen is not None} - kept


# Less than every id.
NOTHING = -1


def _number(look: RowLook) -> int:
    return NOTHING if look.seen is None else look.seen


class _Newest:
    """The newest acknowledged row of each client at any moment. The ids of a client only increase."""

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

    def age(self, look: RowLook) -> float:
        """Return for how many seconds the oldest row that a stale read missed had been acknowledged."""
        ends, ids = self._rows[look.writer]
        return look.invoked - ends[bisect_right(ids, _number(look))]


# --- time -------------------------------------------------------------------------------------------------------------


def stall(history: Iterable[Attempt], load: Window) -> float:
    """Return the longest time in seconds without an acknowledgement within the load, its beginning and end included."""
    ends = sorted(attempt.ended for attempt in history if attempt.acknowledged)
    marks = [load[0], *(end for end in ends if load[0] <= end <= load[1]), load[1]]
    return max(later - earlier for earlier, later in pairwise(marks))


def back_after(history: Iterable[Attempt], moment: float, injected: float | None = None) -> float | None:
    """Return seconds from `moment` until a statement sent after it was acknowledged; None if none was.

    With `injected` they are counted from there: from the beginning of an injection that had returned at `moment`.
    """
    ends = [attempt.ended for attempt in history if attempt.acknowledged and attempt.invoked >= moment]
    return min(ends) - (moment if injected is None else injected) if ends else None


def outage(history: Iterable[Attempt], window: Window, load: Window) -> float | None:
    """Return the longest time in seconds between two acknowledgements, of which a part is within a fault's window.

    The window begins with the injection. None if there was no acknowledgement before it, or if the time from the last
    one to the end of the load is as long.
    """
    begin, end = window
    ends = sorted(attempt.ended for attempt in history if attempt.acknowledged)
    if not ends or ends[0] >= begin:
        return None
    longest = max((later - earlier for earlier, later in pairwise(ends) if later > begin and earlier < end), default=0)
    silent = load[1] - ends[-1] if ends[-1] < end else 0
    return longest if longest > silent else None


def together(spans: Mapping[str, Sequence[Window]]) -> float:
    """Return the seconds in which the spans of at least two of the names overlap; those of one name do not."""
    # At the same moment an end comes before a begin.
    moments = sorted(
        (at, change) for own in spans.values() for span in own for at, change in zip(span, (1, -1), strict=True)
    )
    total, open_now = 0.0, 0
    for (at, change), (later, _) in pairwise([*moments, (moments[-1][0] if moments else 0.0, 0)]):
        open_now += change
        if open_now > 1:
            total += later - at
    return round(total, 3)


def within(history: Iterable[Attempt], windows: Sequence[Window]) -> list[Attempt]:
    """Return the attempts that were sent within one of the windows."""
    if len(windows) == 1:  # the usual case; `any` for each attempt of a long load takes longer than all other checks
        begin, end = windows[0]
        return [attempt for attempt in history if begin <= attempt.invoked <= end]
    return [attempt for attempt in history if any(begin <= attempt.invoked <= end for begin, end in windows)]


def latency_ratio(history: Sequence[Attempt], windows: Sequence[Window]) -> float | None:
    """Return the median latency of statements sent within the windows, divided by that of statements that ended before.

    None if there is nothing to compare, or the latencies before are too short for the ledger's clock.
    """
    before = [one.latency for one in history if one.acknowledged and one.ended < windows[0][0]]
    during = [one.latency for one in within(history, windows) if one.acknowledged]
    return median(during) / median(before) if during and before and median(before) else None


def throughput_ratio(history: Sequence[Attempt], windows: Sequence[Window]) -> float | None:
    """Return the acknowledgements a second of statements sent within the windows, divided by the rate before.

    A throttled server alternates between full speed and no answer at all, so its median latency does not show the loss.
    """
    sent = [one.invoked for one in history]
    before = windows[0][0] - min(sent) if sent else 0.0
    during = sum(end - begin for begin, end in windows)
    earlier = sum(one.acknowledged and one.ended < windows[0][0] for one in history)
    if before <= 0 or during <= 0 or not earlier:
        return None
    return (sum(one.acknowledged for one in within(history, windows)) / during) / (earlier / before)


def longest(history: Iterable[Attempt]) -> float | None:
    """Return the seconds that the slowest acknowledged statement took; None if none was acknowledged."""
    return max((attempt.latency for attempt in history if attempt.acknowledged), default=None)


# The figures of the user's rows that a copy lacks: MISSING.NODE.SCHEMA.TABLE.
MISSING = "missing_rows"
NO_COPIES = "no copy was read after the drill, so what was lost is not known"

# --- all of it --------------------------------------------------------------------------------------------------------


def rows(history: Sequence[Attempt], copies: Sequence[Copy], before: Mapping[str, int]) -> tuple[Figures, list[str]]:
    """Return the figures about rows, and a sentence for each figure that could not be computed.

    `before` are the rows before the load of those of the user's tables in which they can be counted. The same
    transactions may lack rows of several tables and on several copies, so the largest number of them counts.
    """
    apart = gaps(history, copies, before)
    possible = set().union(*(gap.possible for gap in apart if gap.least))
    found: dict[str, Checker] = {
        "lost": lambda: len(lost(history, copies)) + max([0, *(gap.least for gap in apart)]),
        "rpo_s": lambda: rpo_seconds(history, lost(history, copies) | possible),
        "phantoms": lambda: len(phantoms(history, copies)) + max([0, *(-gap.rows for gap in apart)]),
        "duplicates": lambda: len(duplicates(copies)),
        "diverged": lambda: len(diverged(copies)),
        "unknown_committed": lambda: len(committed_unknown(history, copies)),
    }
    if any(copy.counter is not None for copy in copies):
        found["miscounted"] = lambda: miscounted(copies)
    found |= {f"{MISSING}.{gap.node}.{gap.table}": gap.rows for gap in apart}
    if any(copy.source for copy in copies):
        found |= {f"ahead.{node}": many for node, many in ahead(copies).items()}
    if not copies:
        return {}, [NO_COPIES]
    return checked(found)


def reads(
    history: Sequence[Attempt], looks: Sequence[RowLook], copies: Sequence[Copy], mended: float
) -> tuple[Figures, list[str]]:
    """Return the figures about what clients read; none if no client read.

    Rows that are missing at the end are counted separately if they were seen only after the faults were undone
    (`mended`): a restarted old source shows the rows that it recovered until they are discarded.
    """
    if not looks:
        return {}, []
    before = [look for look in looks if look.ended <= mended]
    return checked(
        {
            "looks": len(looks),
            "stale_reads": lambda: len(stale_reads(history, looks)),
            "stale_s": lambda: stale_s(history, looks),
            "read_your_writes_violations": lambda: len(read_your_writes_violations(history, looks)),
            "monotonic_read_violations": lambda: len(monotonic_read_violations(looks)),
            "phantom_reads": lambda: len(phantom_reads(before, copies)),
            "recovered_reads": lambda: len(phantom_reads(looks, copies) - phantom_reads(before, copies)),
        }
    )


def service(
    history: Sequence[Attempt], load: Window, windows: Sequence[Window], injected: float | None = None
) -> tuple[Figures, list[str]]:
    """Return the figures about times and answers: for all nodes together (NAME), and for each (NAME.NODE).

    `windows` are the times in which a fault acted; during.* counts the statements sent within them. `injected` is when
    the injection of the first one began; None if the time without service is to begin with the first window.
    """
    parts: dict[str, Checker] = {}
    for node in ("", *sorted({attempt.node for attempt in history})):
        own = [attempt for attempt in history if node in ("", attempt.node)]
        end = f".{node}" if node else ""
        parts[f"stall_s{end}"] = partial(stall, own, load)
        parts[f"longest_s{end}"] = partial(longest, own)
        parts |= {f"{name}{end}": many for name, many in counts(own).items()}
        if windows:
            parts[f"rto_s{end}"] = partial(back_after, own, windows[0][0], injected)
            if injected is not None:
                parts[f"outage_s{end}"] = partial(outage, own, (injected, windows[0][1]), load)
            parts[f"latency_ratio{end}"] = partial(latency_ratio, own, windows)
            parts[f"throughput_ratio{end}"] = partial(throughput_ratio, own, windows)
            parts |= {f"during{end}.{name}": many for name, many in counts(within(own, windows)).items()}
    return checked(parts)


def counts(history: Iterable[Attempt]) -> dict[str, int]:
    """Return the number of attempts by outcome and by error: {acknowledged, failed, unknown, error.CODE}."""
    history = list(history)
    outcomes = [attempt.outcome for attempt in history]
    codes = Counter(attempt.code for attempt in history if attempt.code is not None)
    errors = {f"error.{code}": many for code, many in codes.items()}
    return {**{outcome.value: outcomes.count(outcome) for outcome in Outcome}, **dict(sorted(errors.items()))}


def checked(checkers: Mapping[str, Checker]) -> tuple[Figures, list[str]]:
    """Return the checkers' figures by name, without None, and a sentence for each checker that failed."""
    figures: Figures = {}
    failures: list[str] = []
    for name, check in checkers.items():
        try:
            found = check() if callable(check) else check
        except Exception as error:  # of any type: one figure that fails must not remove the others
            failures.append(f"the checker of {name} failed: {type(error).__name__}: {error}")
            continue
        if found is not None:
            figures[name] = round(found, 3)
    return figures, failures
