"""Does the live page show what happens on every topology, and leave nothing behind?"""

import json
import signal

import pytest
from replication_lab.world import catalogue

from tests.lab.conftest import read_until, things_of
from tests.lab.page_of_lab import SECONDS, Browser, until

pytestmark = [pytest.mark.long, pytest.mark.alone]
ASKED, TRIP_MS = "200ms", 200
# A view of a machine with an emulated processor is four seconds old, and its restart takes minutes.
LONG, LONGER = 120, 900
# Commits of one sample of a second beside the law, which is one of the mean.
ROOM = 1.3


def node_of(state, name):
    return next(each for each in state["nodes"] if each["name"] == name)


def is_well(state):
    """Return whether every node is well, every link's condition was verified, and the clients commit."""
    return (
        all(each["level"] == "good" for each in state["nodes"])
        and all(link["seen"] and link["measured_ms"] is not None for link in state["links"])
        and state["sample"]["commits_per_s"]
    )


def links_of(state):
    """Return the links that a condition is put on: the second ring of a cluster manager carries no writes."""
    return [link["name"] for link in state["links"] if not link["name"].endswith("-ring")]


class Page:
    """The page of a lab, and its stream."""

    def __init__(self, browser, events):
        self.browser, self.events = browser, events

    def do(self, method, path, body):
        status, answer = self.browser.send(method, path, body)
        assert status == 202, answer
        return answer

    def until(self, holds, most=LONG):
        return until(self.events, holds, most)[0]


def slide(page, lab):
    """Ask for 200 ms on each link: measured, verified, and the rate at the law within three seconds where it waits."""
    before = page.until(is_well, LONGER)
    links = links_of(before)
    waits = before["sample"]["law_per_s"] is not None
    for name in links:
        page.do("PATCH", f"/links/{name}", {"condition": ASKED})
    changed = page.until(lambda state: all(link["asked"] == ASKED for link in state["links"] if link["name"] in links))
    slow = page.until(lambda state: _is_slow(state, links, waits))
    took = slow["at"] - changed["at"]
    verified = page.until(lambda state: all(link["seen"] for link in state["links"]))
    after, law = slow["sample"], slow["sample"]["law_per_s"]
    measured = min(link["measured_ms"] for link in slow["links"] if link["name"] in links)
    print(
        f"{lab}: asked {ASKED} on {len(links)} links, measured {measured:g} ms after {took:.1f} s; "
        f"commits {before['sample']['commits_per_s']:g}/s, then {after['commits_per_s']:g}/s; law {law}; "
        f"explained: {' '.join(verified['explain'])}"
    )
    assert took <= 3
    for name in links:
        page.do("PATCH", f"/links/{name}", {"condition": None})
    page.until(is_well, LONGER)


def _is_slow(state, links, waits):
    measured = [link["measured_ms"] or 0 for link in state["links"] if link["name"] in links]
    sample = state["sample"]
    if min(measured) < TRIP_MS - 5:
        return False
    return not waits or ((sample["law_per_s"] or 0) > 0 and sample["commits_per_s"] <= ROOM * sample["law_per_s"])


def break_a_node(page):
    """End the last node, or restart the only one; it is shown and explained, and comes back."""
    state = page.until(is_well, LONGER)
    name = state["nodes"][-1]["name"]
    if len(state["nodes"]) == 1:
        page.do("POST", f"/nodes/{name}/restart", {})
        page.until(lambda state: node_of(state, name)["seen"], LONGER)
        return
    page.do("POST", f"/nodes/{name}/kill", {})
    ended = page.until(lambda state: node_of(state, name)["at"] != "running" and not node_of(state, name)["busy"])
    assert node_of(ended, name)["level"] == "bad" and name in " ".join(ended["explain"]), ended["explain"]
    page.until(lambda state: {each["track"]: each["level"] for each in state["sample"]["bands"]}[name] == "bad")
    page.do("POST", f"/nodes/{name}/start", {})
    page.until(lambda state: not node_of(state, name)["busy"] and node_of(state, name)["seen"], LONGER)


def compare_the_ledger(page):
    """No acknowledged row is lost, and every sample has the figures that the charts draw."""
    page.until(is_well, LONGER)
    page.do("POST", "/ledger/check", {})
    state = page.until(lambda state: state["ledger"]["checked_at"] and not state["ledger"]["checking"], LONGER)
    sample = state["sample"]
    assert state["ledger"]["lost"] == 0 and state["ledger"]["acknowledged"] > 0
    assert sample["latency"]["n"] and set(sample["round_trip_ms"]) == {link["name"] for link in state["links"]}
    assert [band["track"] for band in sample["bands"]] == [each["name"] for each in state["nodes"]]


def limit_the_disks(page):
    """Limit the disks of a node: they report what was asked for, and then what they had."""
    state = page.until(lambda state: node_of(state, "replica")["disks"])
    had = [disk["write_iops"] for disk in node_of(state, "replica")["disks"]]
    for limits, reported in (({"write_iops": 100}, [100] * len(had)), ({}, had)):
        page.do("POST", "/nodes/replica/disk-limit", {"limits": limits})
        page.until(lambda state: node_of(state, "replica")["seen"] and not node_of(state, "replica")["busy"])
        page.until(lambda state, now=reported: [d["write_iops"] for d in node_of(state, "replica")["disks"]] == now)


def show(command, lab, more=lambda _page: None):
    browser = Browser(read_until(command, "http://")[-1].strip())
    with browser.events() as events:
        assert next(events)[0] == "hello"
        page = Page(browser, events)
        if catalogue.topology(lab).links:
            slide(page, lab)
        more(page)
        break_a_node(page)
        compare_the_ledger(page)
    command.send_signal(signal.SIGTERM)
    assert command.wait(SECONDS) == 143


@pytest.mark.parametrize("topology", catalogue.topologies())
def test_the_page_of_a_topology(start_command, name, topology):
    """Its link at 200 ms, a node that ends and comes back, the ledger; and after SIGTERM nothing is left."""
    show(start_command("live", topology, "--lab", name, "--no-open"), topology)

    assert things_of(name) == []


def test_the_page_of_a_lab_on_emulated_disks(command, start_command, name):
    """The same, and a disk that is limited; the lab was up before, stays, and has its own limits again."""
    up = command("up", "semisync", "--lab", name, "--storage", "replica=raid1", "--disk", "plain-400")
    assert up.returncode == 0, up.stdout + up.stderr
    page = start_command("live", "--lab", name, "--no-open")
    show(page, "semisync", limit_the_disks)
    assert json.loads(command("status", "--lab", name, "--json").stdout)
    assert command("down", "--lab", name).returncode == 0

    assert things_of(name) == []
