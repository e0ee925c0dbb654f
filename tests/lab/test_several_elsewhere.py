"""Do the live page and two commands at once work on an engine of another machine, and leave nothing there?"""

import json
import signal

import pytest
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import images

from tests.lab.conftest import read_until
from tests.lab.engine_elsewhere import MISSING, engine_elsewhere
from tests.lab.page_of_lab import SECONDS, Browser, until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(MISSING), reason=f"an engine in a network namespace needs {MISSING}"),
]
LINK = "source-replica"


@pytest.fixture(scope="module")
def elsewhere(built):
    images.ensure(["clients", "load"])
    with engine_elsewhere(
        *(f"replication-lab/{name}" for name in ("mariadb", "toxiproxy", "load", "clients"))
    ) as found:
        yield found


def measured_ms(state):
    return state["links"][0]["measured_ms"] or 0


def test_a_slider_of_the_live_page_slows_a_lab_there(elsewhere, start_command, name):
    """The page is here, the lab there: 200 ms are measured, fewer commits are made, and the end leaves nothing."""
    page = start_command("live", "semisync", "--lab", name, "--no-open", DOCKER_HOST=elsewhere.host)
    browser = Browser(read_until(page, "http://")[-1].strip())
    with browser.events() as events:
        before, _ = until(events, lambda state: state["sample"]["commits_per_s"] and 75 < measured_ms(state) < 100)
        assert browser.send("PATCH", f"/links/{LINK}", {"condition": "200ms"})[0] == 202
        after, _ = until(
            events, lambda state: 180 < measured_ms(state) < 230 and 0 < state["sample"]["commits_per_s"] < 25
        )
        until(events, lambda state: state["links"][0]["seen"])
    assert before["sample"]["law_per_s"] > 2 * after["sample"]["law_per_s"]
    page.send_signal(signal.SIGTERM)

    assert page.wait(SECONDS) == 143
    wait_until(lambda: elsewhere.things() == [], "nothing to be left", hint=str(elsewhere.things()))


def test_two_commands_at_once_have_a_lab_each_there(elsewhere, start_command, command, name):
    """Neither takes the other's lab for a leftover, each answers its own, and a drill goes on beside them."""
    names = [f"{name}-{number}" for number in (1, 2)]
    ups = [start_command("up", "semisync", "--lab", each, DOCKER_HOST=elsewhere.host) for each in names]
    drill = start_command("drill", "async", "--drill", "lose-source", DOCKER_HOST=elsewhere.host)
    said = [each.communicate(timeout=3 * SECONDS) for each in (*ups, drill)]

    assert [each.returncode for each in ups] == [0, 0], said
    # Beside others a drill may be UNKNOWN, and is never refuted.
    assert drill.returncode in (0, 3), said[-1]
    shown = json.loads(command("status", "--json", DOCKER_HOST=elsewhere.host).stdout)
    assert sorted(each["name"] for each in shown) == names
    for each in names:
        sql = command("sql", "source", "-e", "SELECT @@hostname", "--lab", each, DOCKER_HOST=elsewhere.host)
        assert sql.returncode == 0, sql.stderr
        assert command("down", "--yes", "--lab", each, DOCKER_HOST=elsewhere.host).returncode == 0
    wait_until(lambda: elsewhere.things() == [], "nothing to be left", hint=str(elsewhere.things()))
