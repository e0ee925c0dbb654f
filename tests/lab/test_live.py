"""Does the live page show what happens to a real lab, and leave nothing behind?"""

import json
import queue
import signal
import subprocess
import time
from contextlib import contextmanager

import pytest
from replication_lab.lab import up
from replication_lab.live.labs import viewed
from replication_lab.live.session import viewing
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.live.view import ActOnNode, Gone, Level
from replication_lab.world import catalogue, signals
from replication_lab.world.docker import project

from tests.lab.conftest import read_until, things_of
from tests.lab.page_of_lab import SECONDS, Browser, until

LINK = "source-replica"


def test_a_slider_slows_a_real_lab_and_the_end_leaves_nothing(start_command, name):
    """PATCH 200 ms: measured within a few samples, the rate below the law; SIGTERM removes lab and page."""
    page = start_command("live", "semisync", "--lab", name, "--no-open")
    address = read_until(page, "http://")[-1].strip()
    browser = Browser(address)
    with browser.events() as events:
        assert next(events)[0] == "hello"
        # A busy moment lengthens a round trip.
        before, _ = until(events, lambda state: state["sample"]["commits_per_s"] and _is_near(state, 85))
        assert browser.send("PATCH", f"/links/{LINK}", {"condition": "200ms"})[0] == 202
        after, samples = until(
            events,
            lambda state: _is_near(state, 200) and 0 < state["sample"]["commits_per_s"] < 25,
        )
        until(events, lambda state: state["links"][0]["seen"])
    assert before["sample"]["law_per_s"] > 2 * after["sample"]["law_per_s"]
    assert after["sample"]["commits_per_s"] <= 1.3 * after["sample"]["law_per_s"]
    assert samples <= 8
    page.send_signal(signal.SIGTERM)

    assert page.wait(SECONDS) == 143
    assert things_of(name) == []


def _is_near(state, round_trip_ms):
    return abs((state["links"][0]["measured_ms"] or 0) / round_trip_ms - 1) < 0.1


@pytest.mark.long
def test_a_view_that_is_killed_is_undone_by_the_next_command(command, start_command, name):
    """The lab was up before: its link has its own condition again, the stopped replica runs, the ledger is gone."""
    assert command("up", "semisync", "--lab", name).returncode == 0
    before = project.find(name).link(LINK).toxics()
    page = start_command("live", "--lab", name, "--no-open")
    browser = Browser(read_until(page, "http://")[-1].strip())
    with browser.events() as events:
        assert browser.send("POST", "/nodes/replica/stop", {})[0] == 202
        until(events, lambda state: any(each["name"] == "replica" and each["seen"] for each in state["nodes"]))
        assert browser.send("PATCH", f"/links/{LINK}", {"condition": "200ms"})[0] == 202
        until(events, lambda state: state["links"][0]["asked"] == "200ms")
    page.kill()
    page.wait(SECONDS)

    said = command("status", "--lab", name)

    assert "restored" in said.stdout + said.stderr and "node replica (was exited)" in said.stdout + said.stderr
    lab = project.find(name)
    assert {toxic.name for toxic in lab.link(LINK).toxics()} == {toxic.name for toxic in before}
    assert set(lab.states().values()) == {"running"}
    assert lab.node("source").server().rows("SHOW TABLES IN lab LIKE 'ledger'") == []
    assert "restored" not in command("status", "--lab", name).stdout
    assert command("down", "--lab", name).returncode == 0


def test_the_compose_file_for_grafana_is_accepted():
    """It is not run: its images are in no registry that is reachable here."""
    file = catalogue.ROOT / "docs" / "grafana" / "compose.yaml"
    done = subprocess.run(
        ["docker", "compose", "-f", str(file), "--profile", "grafana", "config", "--services"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert set(done.stdout.split()) == {"prometheus", "exporter", "grafana"}


class Viewer:
    """Waits for what a view of a lab shows."""

    def __init__(self, session):
        self.session, self.shown = session, queue.SimpleQueue()
        session.subscribe(self.shown.put)

    def until(self, holds, seconds=SECONDS):
        """Return the first state for which this holds."""
        end, state = time.monotonic() + seconds, None
        while time.monotonic() < end:
            state = self.shown.get(timeout=seconds)
            if isinstance(state, Gone) or holds(state):
                return state
        raise AssertionError(state)


def node(state, name):
    return next(each for each in state.nodes if each.name == name)


@contextmanager
def view(name, topology, clients=4, rate=200.0):
    """View a lab of its own."""
    with viewed(topology, name, None, lambda _line: None) as lab, viewing(lab, clients, rate) as session:
        yield Viewer(session)


@pytest.mark.long
def test_a_source_that_is_lost_behind_a_cut_link_costs_rows_that_the_ledger_counts(name):
    """Cut, fall back, kill, promote: acknowledged rows are lost; the old source comes back as a replica."""
    with view(name, "semisync") as viewer:
        session, page = viewer.session, viewer
        page.until(lambda state: state.sample.commits_per_s)
        session.change_link(LINK, "cut")
        cut = page.until(lambda state: state.links[0].seen is not None)
        assert cut.links[0].seen and cut.links[0].asked == "cut"
        stalled = page.until(lambda state: "have waited" in state.explain[0])
        assert stalled.sample.commits_per_s == 0 and stalled.sample.law_per_s is None
        fallen = page.until(lambda state: "fell back" in state.explain[0] and state.sample.commits_per_s)
        assert Level.WARN in {band.level for band in fallen.sample.bands}
        session.act_on_node("source", "kill", ActOnNode())
        page.until(lambda state: node(state, "source").seen and "promote" in node(state, "replica").actions)
        session.act_on_node("replica", "promote", ActOnNode(allow_data_loss=True))
        lost = page.until(lambda state: state.ledger.lost is not None)
        assert lost.ledger.lost > 0 and lost.ledger.checked_on == "replica" and lost.load.node == "replica"
        page.until(lambda state: state.sample.commits_per_s)
        session.change_link(LINK, None)
        session.act_on_node("source", "start", ActOnNode())
        page.until(lambda state: "rejoin" in node(state, "source").actions)
        session.act_on_node("source", "rejoin", ActOnNode(allow_data_loss=True))
        back = page.until(lambda state: node(state, "source").role == "replica", 120)
        assert {link.name for link in back.links} == {LINK, "replica-source"}
        follows = page.until(lambda state: state.sample.law_per_s is not None)
        assert follows.load.node == "replica"
        spans = {span.label: span for span in follows.spans}
        assert {f"{LINK} cut", "kill source", "promote replica"} <= set(spans)
        assert all(spans[label].end for label in (f"{LINK} cut", "kill source"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("topology", "waits"),
    [
        ("async", False),
        ("semisync-3", True),
        ("galera", True),
        ("group", True),
        ("drbd", True),
        pytest.param("raid", False, marks=pytest.mark.alone),
    ],
)
def test_every_topology_is_shown(name, topology, waits):
    """Each node with a good state, each link with its round trip, the law where commits wait; a pause is seen."""
    with view(name, topology) as viewer:
        whole = viewer.until(
            lambda state: (
                state.sample.commits_per_s
                and all(each.level is Level.GOOD for each in state.nodes)
                and all(link.measured_ms is not None and link.seen for link in state.links)
            ),
            120,
        )
        assert (whole.sample.law_per_s is not None) == waits
        last = whole.nodes[-1].name
        viewer.session.act_on_node(last, "pause", ActOnNode())
        viewer.until(lambda state: node(state, last).at == "paused" and node(state, last).seen)
        viewer.until(lambda state: node(state, last).level is Level.BAD)
        viewer.session.act_on_node(last, "resume", ActOnNode())
        viewer.until(lambda state: all(each.level is Level.GOOD for each in state.nodes), 120)


@pytest.mark.long
@pytest.mark.alone
def test_disks_of_a_node_are_limited_and_shown(name):
    """Asked, reported by the disk, and seen in its work; restored at the end."""
    with view(name, "raid") as viewer:
        found = viewer.until(lambda state: any(each.disks for each in state.nodes) and state.sample.commits_per_s)
        slow = next(each for each in found.nodes if each.disks)
        viewer.session.act_on_node(slow.name, "disk-limit", ActOnNode(limits={"write_iops": 20}))
        viewer.until(lambda state: node(state, slow.name).seen)
        after = viewer.until(lambda state: {each.write_iops for each in node(state, slow.name).disks} == {20})
        assert node(after, slow.name).says


@pytest.fixture
def attached(name):
    """Start a lab that is meant to stay, as `lab up` leaves it to other commands."""
    lab = up.up(LabRequest(catalogue.topology("async"), "mariadb", name), lambda _line: None)
    yield lab
    with signals.signals_held():
        lab.down()


@pytest.mark.long
def test_a_lab_that_is_removed_ends_the_page(attached, name):
    """The view tells it, and does not keep the lab from being removed."""
    with viewing(attached, 1, 50.0) as session:
        viewer = Viewer(session)
        viewer.until(lambda state: state.sample.commits_per_s)
        attached.down()
        end = viewer.until(lambda _state: False)
        assert isinstance(end, Gone) and "was removed" in end.why
        session.wait()


@pytest.mark.long
def test_what_was_changed_on_the_page_is_undone_at_its_end(attached, name):
    """Of a lab that was there before: its link's condition, a paused node; and the table of the load is removed."""
    lab = project.find(name)
    before = lab.link(LINK).toxics()
    with viewing(attached, 1, 50.0) as session:
        viewer = Viewer(session)
        viewer.until(lambda state: state.sample.commits_per_s)
        session.change_link(LINK, "black-hole")
        session.act_on_node("replica", "pause", ActOnNode())
        viewer.until(lambda state: state.links[0].asked == "black-hole" and node(state, "replica").seen)

    assert lab.link(LINK).toxics() == before
    assert lab.node("replica").state()[0] == "running"
    assert "`lab`.`ledger`" not in lab.node("source").server().tables()


# A busy machine lengthens a round trip, so the drill's condition would not be proved.
@pytest.mark.long
@pytest.mark.alone
def test_clicks_are_replayed_by_a_drill(name, command, tmp_path, monkeypatch):
    """The saved file is run on a lab of its own, with the condition and the fault that were clicked."""
    with view(name, "semisync") as viewer:
        viewer.until(lambda state: state.sample.commits_per_s)
        viewer.session.change_link(LINK, "200ms")
        viewer.until(lambda state: state.links[0].seen)
        viewer.session.change_link(LINK, None)
        viewer.until(lambda state: state.links[0].seen and state.links[0].asked != "200ms")
        file = viewer.session.save_drill("clicked").file
    done = command("drill", file, "--json")

    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    assert summary["verdict"] == "AS_EXPECTED"


@pytest.mark.long
def test_a_killed_page_leaves_a_lab_that_the_next_start_removes(start_command, name):
    """As any other command that was killed."""
    page = start_command("live", "single", "--lab", name, "--no-open")
    read_until(page, "http://")
    page.kill()
    page.wait()
    up.tidy(lambda _line: None)

    assert things_of(name) == []
