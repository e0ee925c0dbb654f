"""The same call for several parts of a lab at the same time, because reaching a part takes longer than its answer."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")
Answer = TypeVar("Answer")


def of_each(act: Callable[[Part], Answer], parts: Iterable[Part]) -> list[Answer]:
    """Call `act` with each part, all at once, and return the answers in the parts' order.

    Every call is waited for; then the error of the first part that has one is raised.
    """
    asked = list(parts)
    with ThreadPoolExecutor(len(asked) or 1) as pool:
        return list(pool.map(act, asked))
