"""What viewers are shown, and the errors of what they ask for."""

from collections.abc import Callable

from replication_lab.model.live.view import Gone, ViewedState

Shown = ViewedState | Gone
Put = Callable[[Shown], object]


class Unknown(Exception):
    """An error for a link, node or action that does not exist; `__cause__` is the LabError."""


class Impossible(Exception):
    """An error for a command that is not possible now; `__cause__` is the LabError."""
