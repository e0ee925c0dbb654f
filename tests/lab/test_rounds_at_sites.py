"""Does `lab run --sites` share its rounds among engines, and does the record say where each was measured?"""

from datetime import datetime, timedelta

import pytest
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import images
from replication_lab.world.journal import read

from tests.lab.conftest import things_of
from tests.lab.engine_elsewhere import MISSING, engine_elsewhere

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(MISSING), reason=f"engines in network namespaces need {MISSING}"),
]
CASES = ("--case", "async-85ms", "--case", "after-commit-85ms-4")


@pytest.fixture(scope="module")
def elsewhere(built):
    images.ensure(["clients", "load"])
    with engine_elsewhere(
        *(f"replication-lab/{name}" for name in ("mariadb", "toxiproxy", "load", "clients"))
    ) as found:
        yield found


@pytest.mark.parametrize("module", ["tests.lab.noise_ignored", "tests.lab.machines_apart"])
def test_rounds_are_shared_among_two_engines(module, elsewhere, command):
    """A whole round at each: in turns on one machine, at the same time where the machines are said to be two.

    A claim is decided over both, and nothing is left on either.
    """
    run = command(
        *("run", "semisync_wan", *CASES, "--runs", "4", "--sites", f"here,{elsewhere.host}", "--json"), module=module
    )
    _, record = read("latest")

    assert run.returncode in (0, 3), run.stdout + run.stderr
    assert set(record.sites.values()) == {"", elsewhere.host} and record.sites[1] == ""
    ran = [
        (each.site, datetime.fromisoformat(each.at), timedelta(seconds=each.seconds)) for each in record.measurements
    ]
    at_once = [
        (one, other) for one, began, took in ran for other, at, _ in ran if one != other and began < at < began + took
    ]
    assert bool(at_once) == (module == "tests.lab.machines_apart"), at_once
    wait_until(lambda: things_of("run-semisync") == elsewhere.things() == [], "nothing to be left")
