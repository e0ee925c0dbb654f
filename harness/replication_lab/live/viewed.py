"""What a viewer can see and ask for: the methods that the page's server calls, on a real lab or on a test's."""

from collections.abc import Callable
from typing import Protocol

from replication_lab.model.live.view import Accepted, ActOnNode, Gone, Hello, ViewedState

Shown = ViewedState | Gone
Put = Callable[[Shown], object]


class Viewed(Protocol):
    """A lab that is shown. Each command returns at once, or raises LabError with what does not fit."""

    def hello(self) -> Hello: ...

    def subscribe(self, put: Put) -> Callable[[], None]:
        """Call `put` with every state from now on, from any thread; return what ends that."""
        ...

    def end(self, why: str) -> None:
        """Show all viewers that there is nothing more to see."""
        ...

    def change_link(self, name: str, condition: str | None) -> Accepted: ...

    def act_on_node(self, name: str, action: str, asked: ActOnNode) -> Accepted: ...

    def check_ledger(self) -> Accepted: ...

    def record(self, on: bool) -> Accepted: ...

    def save_drill(self, name: str) -> Accepted: ...


class Unknown(Exception):
    """An error for a link, node or action that does not exist; `__cause__` is the LabError."""


class Impossible(Exception):
    """An error for a command that is not possible now; `__cause__` is the LabError."""
