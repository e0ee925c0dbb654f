"""Are several parts asked at the same time, and is every call waited for?"""

import threading

import pytest
from replication_lab.world import at_once


def test_all_calls_run_at_the_same_time_and_answers_keep_the_order_of_the_parts():
    """Each call waits for all others to have begun."""
    together = threading.Barrier(3, timeout=5)

    def act(part):
        together.wait()
        return part * 2

    assert at_once.of_each(act, (3, 1, 2)) == [6, 2, 4]


def test_the_first_error_is_raised_when_all_calls_have_ended():
    """A call that failed leaves no other one running."""
    ended = []

    def act(part):
        if part != "works":
            raise ValueError(part)
        ended.append(part)

    with pytest.raises(ValueError, match="fails first"):
        at_once.of_each(act, ["fails first", "works", "fails too"])
    assert ended == ["works"]


def test_no_parts_are_no_calls():
    """A lab may have no array."""
    assert at_once.of_each(pytest.fail, []) == []
