"""The live page of a scripted lab, in a real browser."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from replication_lab.live.server import serving

from tests.fakes.live import FakeLive


@pytest.fixture
def lab() -> FakeLive:
    """Return a lab that has run for half a minute."""
    lab = FakeLive()
    for _ in range(30):
        lab.tick()
    return lab


@pytest.fixture
def served(lab) -> Iterator[SimpleNamespace]:
    """Serve the page of the lab; `address` has the token of the next browser."""
    served = SimpleNamespace(end=contextlib.ExitStack())

    def renewed(address: str) -> None:
        served.address = address

    with served.end:
        served.address = served.end.enter_context(serving(lab, 0, renewed))
        yield served


@pytest.fixture
def page(served, browser, lab):
    """Open the page with its token, and wait until it shows the lab."""
    browser.open(served.address)
    browser.shows("#lab", "lab-semisync")
    lab.tick()
    browser.shows("#links", "source-replica")
    return browser
