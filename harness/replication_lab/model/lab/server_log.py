"""The errors in the log of a server that did not start, and the options that they are about."""

import re
from collections.abc import Iterable, Sequence

from replication_lab.model.lab.option_file import Option

UNKNOWN = re.compile(r"unknown (?:variable|option) '(?:--)?([\w-]+)")
# InnoDB of MySQL 5.5 writes its errors without a level.
ERROR = re.compile(r"\[ERROR\] (.*)|(InnoDB: .*(?:error|failed|annot).*)")
# What follows from another error, and names no cause.
FOLLOWS = re.compile(
    r"Aborting|Generic error|init function returned error|registration as a STORAGE ENGINE failed"
    r"|Unknown/unsupported storage engine|Failed to initialize DD|Data Dictionary initialization failed"
)
ABOUT = re.compile(r"(?:\[[\w-]+\] )+")
# Words of options' names that say nothing of what the option is about.
COMMON = {"innodb", "size", "max", "file", "log", "server"}
TELLING = 5


def unknown_in(errors: Iterable[str]) -> list[str]:
    """Return the variables that a server did not know, by the errors in its log."""
    return [name.replace("-", "_").lower() for error in errors for name in UNKNOWN.findall(error)]


def causes(log: str, most: int = 3) -> list[str]:
    """Return the last errors of a server's log without those that only follow from others; else its last line.

    Galera's errors (WSREP) are left out if there are others: its library logs some after the error that ended the
    server.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    found = [ABOUT.sub("", each[1] or each[2]) for each in map(ERROR.search, lines) if each]
    errors = [error for error in found if not FOLLOWS.search(error)] or [each for each in found if each != "Aborting"]
    own = [error for error in errors if not error.startswith("WSREP:")]
    return own[-most:] or errors[-most:] or lines[-1:]


def named_in(text: str, options: Iterable[Option]) -> list[Option]:
    """Return the options whose names a server's message has, in either spelling."""
    words = {word.replace("-", "_").lower() for word in re.findall(r"[A-Za-z][\w.-]*", text)}
    return [option for option in options if option.name in words]


def suspected(errors: Sequence[str], options: Sequence[Option]) -> list[Option]:
    """Return the options that the errors of a server are about: by their names, else by the words of these."""
    text = "\n".join(errors)
    words = set(re.findall(r"[a-z0-9]+", text.lower()))
    return named_in(text, options) or [option for option in options if _is_about(option, text, words)]


def _is_about(option: Option, text: str, words: set[str]) -> bool:
    told = set(option.name.split("_")) - COMMON
    by_name = told <= words and len("".join(told)) >= TELLING
    return by_name or (len(option.value) >= TELLING and option.value in text)
