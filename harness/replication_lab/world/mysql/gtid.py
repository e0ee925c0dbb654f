"""Global transaction identifiers as sets: transactions that one server has committed and another has not."""

import re

Ranges = list[tuple[int, int]]


# The last number of each server in one of MariaDB's domains.
Domain = dict[str, int]


def beyond(mine: str, theirs: str) -> dict[str, Ranges]:
    """Return the transactions in `mine` that `theirs` lacks, as inclusive ranges by the server that numbered them.

    MySQL's GTIDs are sets: UUID:1-5:8. MariaDB's are a binary log's state: the last number of each server per domain.
    """
    if ":" in mine or ":" in theirs:
        known = _mysql(theirs)
        rest = {giver: _minus(ranges, known.get(giver, [])) for giver, ranges in _mysql(mine).items()}
    else:
        known_domains = _mariadb(theirs)
        rest = {}
        for domain, lasts in _mariadb(mine).items():
            rest |= _unknown(lasts, known_domains.get(domain, {}))
    return {giver: ranges for giver, ranges in rest.items() if ranges}


def transactions_in(text: str) -> int:
    """Return the number of transactions: 42 for MariaDB's 0-1-42, 50 for 0-1-42,0-2-50; 6 for MySQL's UUID:1-5:8."""
    return count(beyond(text, ""))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.replace("\n", "").split(",") if part.strip()]


def _mysql(text: str) -> dict[str, Ranges]:
    """Return the ranges of a set by UUID, and by UUID:tag of those that have a tag (MySQL 8.3 and later)."""
    found: dict[str, Ranges] = {}
    for part in _parts(text):
        uuid, *rest = part.split(":")
        giver = uuid
        for each in (one.strip() for one in rest):
            # A tag begins with a letter or an underscore; the ranges up to the next tag are its ranges.
            if not each[:1].isdigit():
                giver = f"{uuid}:{each.lower()}"
                continue
            first, _, last = each.partition("-")
            found[giver] = _merged([*found.get(giver, []), (int(first), int(last or first))])
    return found


def _merged(ranges: Ranges) -> Ranges:
    """Return ranges that may overlap as ranges that do not: several sets may have the same transaction."""
    found: Ranges = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def _mariadb(text: str) -> dict[str, Domain]:
    found: dict[str, Domain] = {}
    for part in _parts(text):
        giver, _, number = part.rpartition("-")
        domain = found.setdefault(giver.partition("-")[0], {})
        domain[giver] = max(int(number), domain.get(giver, 0))
    return found


def _unknown(mine: Domain, theirs: Domain) -> dict[str, Ranges]:
    """Return the ranges of a domain that only `mine` has. Within a domain all servers share one sequence of numbers.

    A state does not contain where a server's numbers began. They begin after those of the server before it, and after
    the numbers that both states have.
    """
    common = _common(mine, theirs)
    found = {}
    for giver, last in mine.items():
        if last > theirs.get(giver, 0):
            before = [theirs.get(giver, 0), common, *mine.values()]
            found[giver] = [(max([number for number in before if number < last], default=0) + 1, last)]
    return found


def _common(mine: Domain, theirs: Domain) -> int:
    """Return the number up to which both states are the same: the last one that both have from the same server.

    If no server is in both states, all of `theirs` counts as common, as far as `mine` goes beyond it.
    """
    shared = [min(mine[giver], theirs[giver]) for giver in mine.keys() & theirs.keys()]
    return max(shared or theirs.values(), default=0)


def _minus(ranges: Ranges, others: Ranges) -> Ranges:
    for first, last in others:
        parts = [part for low, high in ranges for part in ((low, min(high, first - 1)), (max(low, last + 1), high))]
        ranges = [(low, high) for low, high in parts if low <= high]
    return ranges


def union(*found: dict[str, Ranges]) -> dict[str, Ranges]:
    """Return the transactions that are in any of these."""
    merged: dict[str, Ranges] = {}
    for each in found:
        for giver, ranges in each.items():
            merged[giver] = _merged([*merged.get(giver, []), *ranges])
    return merged


def count(found: dict[str, Ranges]) -> int:
    """Return the number of transactions in the ranges."""
    return sum(last - first + 1 for ranges in found.values() for first, last in ranges)


def words(found: dict[str, Ranges], state: str = "") -> str:
    """Return their number, their state and their ranges in words: 3 transactions: 0-1-201 to 0-1-203."""
    many = count(found)
    said = [_range(giver, *each) for giver, ranges in found.items() for each in ranges]
    return f"{many} transaction{'s' if many != 1 else ''}{state}{': ' if said else ''}{', '.join(said)}"


def _range(giver: str, first: int, last: int) -> str:
    # MariaDB writes 0-1-201 where MySQL writes UUID:201.
    joint = "-" if re.fullmatch(r"\d+-\d+", giver) else ":"
    return f"{giver}{joint}{first}" + (f" to {giver}{joint}{last}" if last > first else "")
