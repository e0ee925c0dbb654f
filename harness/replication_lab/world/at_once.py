"""The same call for several parts of a lab at the same time, because reaching a part takes longer than its answer."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")
Answer = TypeVar("Answer")


def of_each(act: Callable[[Part], Answer], parts: Iterable[Part]) -> list[Answer]:
    """Call `act` with each part, all at once, and return the answers in the parts' order.

    Wait for every call; then raise the error of the first part that has one.
    """
    asked = list(parts)
    with ThreadPoolExecutor(len(asked) or 1) as pool:
        return list(pool.map(act, asked))
