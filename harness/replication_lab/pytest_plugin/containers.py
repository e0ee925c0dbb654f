"""Fixtures for containers and Compose projects of Testcontainers; pytest has them if that library is installed."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pytest

if TYPE_CHECKING:
    from replication_lab.pytest_plugin.session import LabSession
    from replication_lab.testcontainers import AttachedProject, ProvedLink

Made = TypeVar("Made")
# pytest leaves the functions of this module out of what it shows of a failure.
__tracebackhide__ = True


@pytest.fixture(scope="session")
def lab_proved_link(_lab_session: "LabSession") -> "Callable[..., AbstractContextManager[ProvedLink]]":
    """Return the function proved_link of replication_lab.testcontainers.

    `with lab_proved_link(container, 3306, "85ms") as link:`; a link that is not proved ends the test as --lab-unknown
    says.
    """
    from replication_lab.testcontainers import proved_link

    return partial(InATest, _lab_session, proved_link)


@pytest.fixture(scope="session")
def lab_from(_lab_session: "LabSession") -> "Callable[..., AbstractContextManager[AttachedProject]]":
    """Return the function lab_from of replication_lab.testcontainers.

    `with lab_from(compose, "app:db") as project:`; a link that is not proved ends the test as --lab-unknown says.
    """
    from replication_lab.testcontainers import lab_from

    return partial(InATest, _lab_session, lab_from)


class InATest(Generic[Made]):
    """A context manager of that module. Of a test that an unproved link ends, pytest shows only the test's own line."""

    def __init__(
        self, session: "LabSession", make: Callable[..., AbstractContextManager[Made]], *asked: Any, **named: Any
    ):
        session.engine()
        self._session, self._made = session, make(*asked, **named)

    def __enter__(self) -> Made:
        return self._judged(self._made.__enter__, None)

    def __exit__(self, *raised: Any) -> None:
        self._judged(partial(self._made.__exit__, *raised), raised[1])

    def _judged(self, act: Callable[[], Any], error: BaseException | None) -> Any:
        from replication_lab.model.core.errors import Unproved
        from replication_lab.pytest_plugin.answers import unknown

        made = None
        try:
            made = act()
        except Unproved as unproved:
            error = unproved
        if isinstance(error, Unproved):
            self._session.name_the_command(error)
            unknown(self._session.policy, str(error))
        return made
