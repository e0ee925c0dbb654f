"""What this process changes of containers, links and servers' variables, and when: all else was done by others."""

import os
import re
import secrets
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from replication_lab.world import clock

# The name of this process in requests that carry one.
SENDER = f"replication-lab/{os.getpid()}-{secrets.token_hex(4)}"
# A drill makes some hundreds.
REMEMBERED = 10_000
# By how much an event may come after the answer to the request that caused it.
LATE_SECONDS = 2.0
# A command in a container; `what` is its text.
COMMAND = "command"
# A container is made again, from another image; `what` is its service.
EXCHANGE = "exchange"
# The commands that change what is replicated, or where packets go; and other requests that change neither.
CHANGES = re.compile(
    r"spindle (?!stats|settings)|guest resource (?!status|states|settings)|guest cluster (standby|online)|guest crm_|"
    r"(guest )?bash -c (?!.*\nshow$)",
    re.DOTALL,
)
# Tables are created, changed or dropped, or a load of the user's may do so.
DEFINES = "defines"
# A statement stops replication at a server, or changes its source.
CONTROLS_REPLICATION = "controls replication"
QUIET = {"archive", "post", "put", DEFINES, CONTROLS_REPLICATION}
Address = tuple[str, int]


@dataclass
class OwnRequest:
    """A request that changes `what`, between two moments of the clock's timer; `ended` is infinite until it ends.

    `caused` are the acts of the engine that were found to come from it, each by the engine's own time of it.
    """

    kind: str
    what: str
    began: float
    ended: float = field(default=float("inf"))
    caused: dict[str, int] = field(default_factory=dict)

    def may_cause(self, at: float) -> bool:
        """Return whether something that was seen at a moment may come from it."""
        return self.began <= at <= self.ended + LATE_SECONDS

    @property
    def disturbs(self) -> bool:
        """Whether it changes a link, a node, a disk or a role, so that replication may change its state."""
        return bool(CHANGES.match(self.what)) if self.kind == COMMAND else self.kind not in QUIET

    def overlaps(self, begin: float, end: float) -> bool:
        return self.began <= end and begin <= self.ended


_made: deque[OwnRequest] = deque(maxlen=REMEMBERED)
# The IDs of commands in containers.
_commands: deque[str] = deque(maxlen=REMEMBERED)
_lock = threading.Lock()


@contextmanager
def noted(kind: str, what: str, command: str = "") -> Iterator[None]:
    """Remember the block as a request of this process; `command` is the ID that the engine gave to one it runs."""
    request = OwnRequest(kind, what, clock.timer())
    with _lock:
        _made.append(request)
        if command:
            _commands.append(command)
    try:
        yield
    finally:
        request.ended = clock.timer()


def commands() -> set[str]:
    """Return the IDs of the commands that this process has run in containers."""
    with _lock:
        return set(_commands)


def made() -> list[OwnRequest]:
    """Return the requests of this process, the oldest first."""
    with _lock:
        return list(_made)


@dataclass(frozen=True)
class OwnSetting:
    """A value that this process has set, at a moment of the clock's timer."""

    value: str
    at: float


# When this process has opened each session, by its server's own address and its number there.
_sessions: dict[tuple[Address, int], float] = {}


def note_session(home: Address, number: int) -> None:
    """Remember that a session of the server with an address is this process's own."""
    with _lock:
        _sessions[home, number] = clock.timer()


def sessions_made(home: Address) -> set[int]:
    """Return the numbers of the sessions that this process has opened on the server with an address."""
    with _lock:
        return {number for where, number in _sessions if where == home}


def forget_sessions(home: Address, before: float) -> None:
    """Forget the sessions that were opened on a server before a moment; since its restart others have their numbers."""
    with _lock:
        for where, number in [one for one, at in _sessions.items() if one[0] == home and at < before]:
            del _sessions[where, number]


# By the address and the variable; None while it is being set. A container that is started again has another address.
_settings: dict[tuple[Address, str], OwnSetting | None] = {}


def note_setting(address: Address, name: str, value: str) -> None:
    """Remember that a variable has a value from now on, by this process."""
    with _lock:
        _settings[address, name] = OwnSetting(value, clock.timer())


def forget_setting(address: Address, name: str) -> None:
    """Expect no value of a variable: it is being set."""
    with _lock:
        _settings[address, name] = None


def settings_made(address: Address) -> dict[str, OwnSetting]:
    """Return what this process has set on the server with an address."""
    with _lock:
        return {name: one for (where, name), one in _settings.items() if where == address and one}


def has_set(address: Address, name: str) -> bool:
    """Return whether this process has set a variable on the server with an address, or is setting it."""
    return (address, name) in _settings
