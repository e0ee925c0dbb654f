"""Fixtures for containers and Compose projects of Testcontainers; pytest has them if that library is installed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from replication_lab.pytest_plugin.session import LabSession
    from replication_lab.testcontainers import AttachedProject, ProvedLink

Made = TypeVar("Made")


@pytest.fixture(scope="session")
def lab_proved_link(_lab_session: "LabSession") -> "Callable[..., AbstractContextManager[ProvedLink]]":
    """Return the function proved_link of replication_lab.testcontainers.

    `with lab_proved_link(container, 3306, "85ms") as link:`; a link that is not proved ends the test as --lab-unknown
    says.
    """
    from replication_lab.testcontainers import proved_link

    return partial(_as_a_test, _lab_session, proved_link)


@pytest.fixture(scope="session")
def lab_from(_lab_session: "LabSession") -> "Callable[..., AbstractContextManager[AttachedProject]]":
    """Return the function lab_from of replication_lab.testcontainers.

    `with lab_from(compose, "app:db") as project:`; a link that is not proved ends the test as --lab-unknown says.
    """
    from replication_lab.testcontainers import lab_from

    return partial(_as_a_test, _lab_session, lab_from)


@contextmanager
def _as_a_test(
    session: "LabSession", make: Callable[..., AbstractContextManager[Made]], *asked: Any, **named: Any
) -> Iterator[Made]:
    from replication_lab.model.core.errors import Unproved
    from replication_lab.pytest_plugin.answers import unknown

    __tracebackhide__ = True
    session.engine()
    try:
        with make(*asked, **named) as made:
            yield made
    except Unproved as error:
        session.name_the_command(error)
        unknown(session.policy, str(error))
