"""Who may see the page, does every viewer see the same, and is a lost connection told?"""

import pytest
from replication_lab.live.server import serving

from tests.browser.forwarder import Forwarder
from tests.browser.looking import CARD, SLIDER, drawn, slide_to_the_end
from tests.fakes.live import LINK

pytestmark = pytest.mark.long


def test_only_the_token_opens_the_page(served, browser, lab):
    """Without it nothing is shown; with it the address loses it, and it opens no second browser."""
    plain, used = served.address.partition("?")[0], served.address
    browser.open(plain)
    assert "it contains the token" in browser.text("body")
    browser.open(used)
    browser.shows("#lab", "lab-semisync")
    assert "token" not in browser.driver.current_url
    browser.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    browser.open(used)
    assert "it contains the token" in browser.text("body")


def test_a_reload_keeps_everything(page, lab):
    """State, history and the chosen colours: the first two come from the server."""
    page.run("const t = document.querySelector('#theme'); t.value = 'dark'; t.dispatchEvent(new Event('change'))")
    slide_to_the_end(page)
    page.shows(f"{CARD} .figures", "requested 300 ms")
    points = drawn(page)["points"]
    page.driver.refresh()
    page.shows("#lab", "lab-semisync")
    lab.tick()

    page.shows(f"{CARD} .figures", "requested 300 ms")
    assert drawn(page)["points"] >= points
    assert page.attribute("html", "data-theme") == "dark"


def test_two_tabs_see_the_same(page, served, lab):
    """What one asks for, the other shows, slider included."""
    with page.tab():
        page.open(served.address.partition("?")[0])
        page.shows("#lab", "lab-semisync")
        lab.tick()
        page.shows("#links", LINK)
        slide_to_the_end(page)
        page.shows(f"{CARD} .figures", "requested 300 ms")
    page.shows(f"{CARD} .figures", "requested 300 ms")
    page.until(lambda: page.attribute(SLIDER, "aria-valuetext") == "300 ms", "the other tab's slider to follow")


def test_a_broken_stream_is_told_and_connects_again(served, browser, lab):
    """The way to the server breaks; when it is there again the page goes on by itself."""
    with Forwarder(served.address) as way:
        browser.open(way.address)
        browser.shows("#lab", "lab-semisync")
        way.close()
        browser.shows("#connection", "reconnecting")
        way.open()
        browser.shows("#connection", "live")


def test_a_server_that_was_started_again_is_told(page, served, lab, monkeypatch):
    """It was killed, and told its pages nothing. They need a new token, and say where to find it."""
    monkeypatch.setattr(lab, "end", lambda _why: None)
    port = int(served.address.partition("/?")[0].rpartition(":")[2])
    served.end.close()
    page.shows("#connection", "reconnecting")
    with serving(lab, port, lambda _: None):
        page.shows("#gone", "Open the address that lab live printed last")


def test_a_file_that_did_not_arrive_is_fetched_again(served, browser, lab):
    """Here the browser refuses it at first; else a network that changes while the page is loaded."""

    def block(urls):
        browser.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": urls})

    block(["*/table.js"])
    browser.open(served.address)
    browser.until(lambda: browser.requests().count(served.address.partition("?")[0]), "the page to be loaded again")
    block([])
    browser.shows("#lab", "lab-semisync")
    assert browser.run("return sessionStorage.length") == 0
