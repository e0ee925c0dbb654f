"""What tells a user, line by line, how far something is."""

from collections.abc import Callable

Tell = Callable[[str], None]
