"""The error that a user sees: what was found, what was expected, and what to type next."""

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

# Of two names that share a few letters only ("nothing", "chain": 0.5), one is not what was meant by the other.
NEAR = 0.6
SHORTEST_BEGINNING = 3
# A container's name is a host name on the lab's network.
LONGEST_NAME = 63


class LabError(Exception):
    """An error with a remedy; `found` is a sentence, `expected` and `next_step` may be empty."""

    def __init__(self, found: str, expected: str = "", next_step: str = ""):
        super().__init__(found)
        self.found, self.expected, self.next_step = found, expected, next_step

    def __str__(self) -> str:
        lines = [self.found]
        if self.expected:
            lines.append(f"expected: {self.expected}")
        if self.next_step:
            lines.append(f"next: {self.next_step}")
        return "\n".join(lines)


class Unproved(LabError):
    """An error for a fault or a state that was asked for and not seen: what happens under it shows nothing."""


class TooSlow(LabError):
    """An error that a slow moment of the machine can cause: a measurement is repeated, and decides nothing."""


class WouldLose(LabError):
    """A change of roles is refused: it would lose transactions."""


class OutcomeUnknown(LabError):
    """An error for a statement that may have had its effect: it is never sent again by itself."""


@contextmanager
def as_lab_error(
    kinds: type[Exception] | tuple[type[Exception], ...], found: str, expected: str = "", next_step: str = ""
) -> Iterator[None]:
    """Raise an error of these kinds within the block as LabError; what it says follows `found`."""
    try:
        yield
    except kinds as error:
        said = getattr(error, "strerror", None) or getattr(error, "found", None) or error
        raise LabError(f"{found}: {said}", expected, next_step) from error


def refuse_long(name: str, kind: str) -> None:
    """Raise LabError for a name that is too long for a host name, and for the names of files made of it."""
    if (size := len(name.encode())) > LONGEST_NAME:
        raise LabError(f"the name {name[:20]}… of a {kind} has {size} bytes", f"at most {LONGEST_NAME} bytes")


def unknown_name(kind: str, name: str, known: Iterable[str], next_step: str = "", other: str = "") -> LabError:
    """Return the error for a name that does not exist, with the nearest one that does.

    `other` is another kind of value that is accepted there.
    """
    names = sorted(known)
    expected = "; or ".join(filter(None, (f"one of {', '.join(names) or '(none)'}", other)))
    return LabError(f"unknown {kind} {name!r}{did_you_mean(name, names)}", expected, next_step)


def refuse_unknown(kind: str, name: str, known: Collection[str], next_step: str = "", other: str = "") -> None:
    """Raise the error of `unknown_name` for a name that is not among the known ones."""
    if name not in known:
        raise unknown_name(kind, name, known, next_step, other)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that names the nearest known name; an empty string if none is near.

    A name is near if most of its letters are the same, if it begins with `name`, or if it has the same words in
    another order.
    """
    names = sorted(known)
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=NEAR) or [
        each
        for each in names
        if (len(name) >= SHORTEST_BEGINNING and each.startswith(name)) or _words(each) == _words(name)
    ]
    return f"; did you mean {nearest[0]}?" if nearest else ""


def _words(name: str) -> list[str]:
    return sorted(re.split(r"[-_.]", name))
