"""Global transaction identifiers as sets: what one server has committed and another has not."""

import re

Ranges = list[tuple[int, int]]


def parse(text: str) -> dict[str, Ranges]:
    """Numbers, as inclusive ranges, by who gave them: MySQL's UUID:1-5:8; MariaDB's 0-1-42 is 1 to 42 of 0-1."""
    parts = [part.strip() for part in text.replace("\n", "").split(",") if part.strip()]
    found: dict[str, Ranges] = {}
    for part in parts:
        giver, ranges = _mysql(part) if ":" in part else _mariadb(part)
        found[giver] = sorted([*found.get(giver, []), *ranges])
    return found


def _mysql(part: str) -> tuple[str, Ranges]:
    giver, *ranges = part.split(":")
    pairs = [each.partition("-") for each in ranges]
    return giver, [(int(first), int(last or first)) for first, _, last in pairs]


def _mariadb(part: str) -> tuple[str, Ranges]:
    giver, _, number = part.rpartition("-")
    return giver, [(1, int(number))]


def beyond(mine: str, theirs: str) -> dict[str, Ranges]:
    """What the first set holds and the second does not."""
    known = parse(theirs)
    rest = {giver: _minus(ranges, known.get(giver, [])) for giver, ranges in parse(mine).items()}
    return {giver: ranges for giver, ranges in rest.items() if ranges}


def _minus(ranges: Ranges, others: Ranges) -> Ranges:
    for first, last in others:
        parts = [part for low, high in ranges for part in ((low, min(high, first - 1)), (max(low, last + 1), high))]
        ranges = [(low, high) for low, high in parts if low <= high]
    return ranges


def count(found: dict[str, Ranges]) -> int:
    return sum(last - first + 1 for ranges in found.values() for first, last in ranges)


def words(found: dict[str, Ranges]) -> str:
    """3 transactions: 0-1-201 to 0-1-203."""
    many = count(found)
    said = [_range(giver, *each) for giver, ranges in found.items() for each in ranges]
    return f"{many} transaction{'s' if many != 1 else ''}{': ' if said else ''}{', '.join(said)}"


def _range(giver: str, first: int, last: int) -> str:
    # MariaDB writes 0-1-201 where MySQL writes UUID:201.
    joint = "-" if re.fullmatch(r"\d+-\d+", giver) else ":"
    return f"{giver}{joint}{first}" + (f" to {giver}{joint}{last}" if last > first else "")
