"""The function that reports progress to the user, line by line."""

from collections.abc import Callable

Tell = Callable[[str], None]
