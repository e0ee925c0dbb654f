"""Answers that an `assert` reads: true, false, or unknown, which is never green."""

import os
from typing import Any, NoReturn

import pytest

# pytest leaves the functions of this module out of what it shows of a failure.
__tracebackhide__ = True

_asked: list["Answer"] = []


def take_asked() -> list["Answer"]:
    """Return the answers that were read since the last call."""
    found = list(_asked)
    _asked.clear()
    return found


def unknown(policy: str, why: str) -> NoReturn:
    """End the test because nothing was proved: fail, skip or xfail."""
    end: dict[str, Any] = {"fail": pytest.fail, "skip": pytest.skip, "xfail": pytest.xfail}
    end[policy](f"UNKNOWN: {why.removeprefix('UNKNOWN: ')}")
    raise AssertionError(why)


class Answer:
    """A verdict in a test: `assert` passes if it is as asked, fails with its text, and an UNKNOWN ends the test.

    `line` is what pytest shows of it, `text` the whole: the sentence, the figures, the reason, the report.
    """

    def __init__(self, is_so: bool | None, line: str, text: str, policy: str):
        self.is_so, self.line, self.text, self._policy = is_so, line, text, policy

    def __bool__(self) -> bool:
        if self.is_so is None:
            unknown(self._policy, self.text)
        _asked.append(self)
        return self.is_so

    def __repr__(self) -> str:
        return self.line


def in_a_test() -> bool:
    """Return whether a test itself runs now, and not a fixture before or after it."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").endswith("(call)")
