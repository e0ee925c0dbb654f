"""Does the live page show what the lab does, within a second, and nothing else?"""

import pytest

from tests.browser.looking import CARD, SLIDER, drawn, slide_to_the_end
from tests.fakes.live import LINK


def test_a_slider_moves_the_law_at_once_and_the_lab_follows(page, lab):
    """By the keyboard: the law for 300 ms is drawn before any new figure, the measured rate comes with the next one."""
    before = drawn(page)
    slide_to_the_end(page)

    assert drawn(page)["preview"] == pytest.approx(4 / 0.3, rel=0.01)
    assert drawn(page)["measured"] == before["measured"]
    page.until(lambda: lab.asked == [("link", LINK, "300ms")], "the request to reach the lab")
    page.shows(f"{CARD} .figures", "requested 300 ms")
    page.shows(f"{CARD} .chip", "checking")
    lab.tick()
    page.shows(f"{CARD} .figures", "measured 30")
    page.shows(f"{CARD} .chip", "verified")
    page.until(lambda: drawn(page)["measured"] < 14, "the drawn rate to follow")
    assert page.complaints() == []


def test_no_request_leaves_this_machine(page, lab):
    """The browser's own log has requests to the page's server only."""
    slide_to_the_end(page)
    page.click("#check")
    page.shows("#ledger .lost", "0")
    found = page.requests()

    assert any(address.endswith("/events") for address in found)
    assert [each for each in found if not each.startswith(("http://127.0.0.1:", "data:", "blob:"))] == []


def test_a_lab_that_dies_is_told(page, lab):
    """The last figures stay, nothing can be clicked, and the page does not connect again."""
    page.requests()
    lab.end("lab-semisync was removed")

    page.shows("#gone", "The page has ended: lab-semisync was removed. The figures below are the last ones.")
    page.shows("#connection", "ended")
    assert page.run("return document.querySelector(arguments[0]).disabled", SLIDER)
    assert page.attribute("[aria-label='Kill source']", "aria-disabled") == "true"
    assert "acknowledged" in page.text("#ledger")
    assert page.requests() == []
