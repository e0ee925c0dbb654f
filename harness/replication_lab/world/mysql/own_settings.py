"""The variables of servers that this process has set, and when: what changes them otherwise was done by others."""

import threading
from dataclasses import dataclass

from replication_lab.world import clock

Address = tuple[str, int]


@dataclass(frozen=True)
class OwnSetting:
    """A value that this process has set, at a moment of the clock's timer."""

    value: str
    at: float


# By the address and the variable. A container that is started again has another address, and its start values.
_made: dict[tuple[Address, str], OwnSetting] = {}
_lock = threading.Lock()


def note(address: Address, name: str, value: str) -> None:
    """Remember that a variable has a value from now on, by this process."""
    with _lock:
        _made[address, name] = OwnSetting(value, clock.timer())


def forget(address: Address, name: str) -> None:
    """Expect no value of a variable: it is being set."""
    with _lock:
        _made.pop((address, name), None)


def made(address: Address) -> dict[str, OwnSetting]:
    """Return what this process has set on the server with an address."""
    with _lock:
        return {name: one for (where, name), one in _made.items() if where == address}
