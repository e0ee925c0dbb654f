"""Does the page ask for what is clicked, and say so when it did not happen?"""

import msgspec
import pytest
from replication_lab.live.session import Impossible
from replication_lab.model.core.errors import LabError
from selenium.webdriver.common.keys import Keys

from tests.browser.looking import CARD, SLIDER, slide_to_the_end
from tests.fakes.live import LINK

pytestmark = pytest.mark.long


def test_an_effect_that_is_not_seen_is_said(page, lab, monkeypatch):
    """A link that keeps its round trip: asked 300 ms, measured 85 ms, and the proof that failed."""
    slide_to_the_end(page)
    page.until(lambda: lab.asked, "the request")
    failed = {"measured_ms": 85.0, "seen": False, "says": "the round trip stayed at 85 ms"}
    usual = lab.state
    monkeypatch.setattr(
        lab,
        "state",
        lambda: (s := usual()) and msgspec.structs.replace(s, links=[msgspec.structs.replace(s.links[0], **failed)]),
    )
    lab.tick()

    page.shows(f"{CARD} .figures", "requested 300 ms, measured 85 ms")
    page.shows(f"{CARD} .chip", "no effect seen")
    page.shows(f"{CARD} .says", "stayed at 85 ms")
    page.shows("#log", "NO EFFECT SEEN")


def test_what_was_asked_for_is_not_shown_before_the_lab_has_it(page, lab, monkeypatch):
    """The server accepts, and no state confirms it: the page goes on showing 85 ms as asked."""
    monkeypatch.setattr(lab, "change_link", lambda name, condition: lab.asked.append(condition) or lab.check_ledger())
    slide_to_the_end(page)
    page.until(lambda: "300ms" in lab.asked, "the request")
    lab.tick()

    page.shows("#connection", "live")
    assert "requested 85 ms" in page.text(f"{CARD} .figures")


def test_a_refused_command_says_why(page, lab, monkeypatch):
    """In the three lines of the command line's errors, beside the control; the slider goes back."""

    def refuse(_name, _condition):
        raise LabError("the link is in use", "one command at a time", "wait for lab toxic")

    monkeypatch.setattr(lab, "change_link", refuse)
    slide_to_the_end(page)

    page.shows(f"{CARD} .refused", "the link is in use Expected: one command at a time. Next: wait for lab toxic")
    lab.tick()
    page.until(lambda: page.attribute(SLIDER, "aria-valuetext") == "85 ms", "the slider to show what the lab has")


def test_a_link_is_broken_and_restored(page, lab):
    """Cut, black hole, one-way and reset stay pressed; the second press restores the condition of the start."""
    for text, condition in (("Cut", "cut"), ("Black hole", "black-hole"), ("One-way", "one-way"), ("Reset", "reset")):
        button = f"[aria-label='{text} {LINK}']"
        page.click(button)
        page.until(lambda b=button: page.attribute(b, "aria-pressed") == "true", f"{text} to be shown as asked")
        assert lab.asked[-1] == ("link", LINK, condition)
    lab.tick()
    page.shows(f"{CARD} .figures", "measured no answer")
    page.click(button)
    page.shows(f"{CARD} .figures", "requested 85 ms")


def test_a_bandwidth_and_a_named_condition_are_asked_for(page, lab):
    """The rate is added to the slider's round trip; a name is sent as it is."""
    choose = """
      const list = document.querySelector(arguments[0]);
      list.value = arguments[1];
      list.dispatchEvent(new Event('change'));
    """
    page.run(choose, f"[aria-label='Bandwidth of {LINK}']", "20mbit")
    page.until(lambda: lab.asked[-1:] == [("link", LINK, "85ms+20mbit")], "the rate to be asked for")
    page.run(choose, f"[aria-label='Condition of {LINK} by name']", "black-hole")
    page.until(lambda: lab.asked[-1:] == [("link", LINK, "black-hole")], "the named condition to be asked for")


def test_a_killed_source_is_seen_everywhere(page, lab):
    """In the picture, at the node, in the bands, in the log; only what is possible now can be clicked."""
    page.click("[aria-label='Kill source']")
    page.until(lambda: ("node", "source", "kill") in lab.asked, "the request")
    lab.tick()

    page.shows("#node-source .chip", "exited")
    page.shows("#node-source .figures", "container exited")
    page.until(lambda: "bad" in page.attribute("#picture a[href='#node-source']", "class"), "the picture to change")
    page.shows("#log", "kill source")
    assert page.attribute("[aria-label='Kill source']", "aria-disabled") == "true"
    page.click("[aria-label='Start source']")
    page.shows("#node-source .figures", "container running")


@pytest.mark.parametrize("at_once", [True, False], ids=["refused", "found out"])
def test_a_promotion_that_would_lose_writes_asks_again(page, lab, monkeypatch, at_once):
    """The refusal, or the state that comes later, says what would be lost; the second button accepts it."""
    asked, usual, failed = [], lab.state, {}

    def act(name, action, body):
        asked.append((name, action, body.allow_data_loss))
        if at_once and not body.allow_data_loss:
            raise Impossible from LabError("replica lacks 3 transactions", "a replica with all writes")
        failed.update(asked=action, seen=body.allow_data_loss, says="replica lacks 3 transactions")
        return lab.check_ledger()

    def state():
        found = usual()
        return msgspec.structs.replace(found, nodes=[found.nodes[0], msgspec.structs.replace(found.nodes[1], **failed)])

    monkeypatch.setattr(lab, "act_on_node", act)
    monkeypatch.setattr(lab, "state", state)
    page.click("[aria-label='Promote replica']")
    page.shows("#node-replica", "replica lacks 3 transactions")
    page.shows("#node-replica > button", "Promote replica and accept that writes are lost")
    page.click("#node-replica > button")
    page.until(lambda: asked == [("replica", "promote", False), ("replica", "promote", True)], "the second request")
    page.until(lambda: page.run("return document.querySelector('#node-replica > button').hidden"), "its end")


def test_the_ledger_is_checked_on_demand(page, lab):
    """Lost rows are shown beside what was sent, with the time and the node of the check."""
    assert "not checked" in page.text("#ledger .lost")
    page.click("#check")
    page.shows("#ledger .lost", "0")
    page.shows("#ledger", "on source")
    lab.ledger = msgspec.structs.replace(lab.ledger, lost=3, missing={"replica": 2})
    lab.tick()
    page.shows("#ledger .lost", "3")
    page.shows("#ledger", "replica lacked 2 acknowledged rows")
    page.shows("#figures", "Acknowledged rows lost3")


def test_the_clicks_are_recorded_and_saved(page, lab):
    """Record stays pressed while it runs; a saved drill says how to repeat it."""
    page.click("#record")
    page.until(lambda: page.attribute("#record", "aria-pressed") == "true", "the record to run")
    page.click("#drill")
    page.press("#save-name", "mine-2", Keys.ENTER)
    page.shows("#message", "lab drill runs/mine-2.yaml")
    page.click("#record")
    page.until(lambda: page.attribute("#record", "aria-pressed") == "false", "the record to end")
    assert lab.asked == [("record", True), ("drill", "mine-2"), ("record", False)]
