"""Who may see the page, does every viewer see the same, and is a lost connection told?"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from replication_lab.live.server import leading_to, serving
from replication_lab.world import catalogue

from tests.browser.forwarder import Forwarder
from tests.browser.looking import CARD, SLIDER, drawn, slide_to_the_end
from tests.fakes.live import LINK

pytestmark = pytest.mark.long


def test_only_the_token_opens_the_page(served, browser, lab):
    """Without it nothing of the lab is shown; with it the address loses it, and it opens no second tab."""
    plain, used = served.address.partition("#")[0], served.address
    browser.open(plain)
    browser.shows("#gone", "Open the address that lab live printed last")
    browser.open(used)
    browser.shows("#lab", "lab-semisync")
    browser.until(lambda: browser.driver.current_url == plain, "the token to leave the address")
    with browser.tab():
        browser.open(used)
        browser.shows("#gone", "Open the address that lab live printed last")
    assert "lab-semisync" not in browser.run("return JSON.stringify(localStorage)")


class Neighbour(BaseHTTPRequestHandler):
    """The server of another user, on another port of this machine: keeps what browsers send."""

    seen: ClassVar[list[str]] = []

    def do_GET(self):
        self.seen.append(f"{self.path}\n{self.headers}")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<title>neighbour</title>")

    def log_message(self, *_):
        pass


@pytest.fixture
def neighbour():
    with ThreadingHTTPServer(("127.0.0.1", 0), Neighbour) as server:
        Neighbour.seen.clear()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_another_port_of_this_machine_gets_no_secret(served, page, lab, neighbour):
    """In the same tab, after the page had its session: no cookie, no token, no session, no address of the page."""
    session, address = page.run("return [sessionStorage.getItem('lab-live-session'), location.origin]")
    page.open(f"http://127.0.0.1:{neighbour.server_port}/visited")
    page.until(lambda: any("/visited" in each for each in Neighbour.seen), "the neighbour to be visited")
    kept = page.run("return JSON.stringify([document.cookie, sessionStorage, localStorage])")

    assert page.driver.get_cookies() == []
    for each in Neighbour.seen:
        assert "Cookie:" not in each and "Authorization:" not in each
        assert session not in each and address not in each
    assert session not in kept


def test_a_page_of_another_port_cannot_read_or_change_the_lab(served, page, lab, neighbour):
    """Not even with a session that it has guessed: the browser's Origin gives it away."""
    session, address = page.run("return [sessionStorage.getItem('lab-live-session'), location.origin]")
    asked = list(lab.asked)
    page.open(f"http://127.0.0.1:{neighbour.server_port}/")
    call = """
      const [address, session, method, path, done] = arguments;
      const headers = { Authorization: `Bearer ${session}` };
      fetch(address + path, { method, headers, mode: 'cors', body: method == 'GET' ? undefined : '{}' })
        .then((answer) => done(`read: ${answer.status}`), () => done('not read'));
    """
    for method, path in (("GET", "/events"), ("POST", "/ledger/check"), ("POST", "/session")):
        assert page.driver.execute_async_script(call, address, session, method, path) == "not read"
    assert lab.asked == asked


def test_the_file_for_the_browser_leads_to_the_page(served, browser, lab, monkeypatch, tmp_path):
    """A desktop's browser gets the name of a file; the page opens from it, by the token that is in it."""
    monkeypatch.setattr(catalogue, "RUNS", tmp_path)
    with leading_to(served.address) as file:
        browser.open(file.as_uri())
        browser.shows("#lab", "lab-semisync")


def test_a_new_address_in_an_ended_tab_opens_the_page(served, browser, lab):
    """It differs from the old one in the token only, so that the browser itself would load nothing."""
    browser.open(f"{served.address.partition('#')[0]}#token=wrong")
    browser.shows("#gone", "Open the address that lab live printed last")
    browser.open(served.address)
    browser.shows("#lab", "lab-semisync")


def test_the_link_to_the_figures_does_not_load_the_page_again(page):
    """It changes the same part of the address as a token does."""
    page.run("window.mark = 'same page'; document.querySelector('.skip').click()")
    page.until(lambda: page.driver.current_url.endswith("#figures"), "the address to change")

    assert page.run("return window.mark") == "same page"
    page.shows("#connection", "live")


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
    """Each opened by an address of its own. What one asks for, the other shows, slider included."""
    with page.tab():
        page.open(served.address)
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
    port = int(served.address.partition("/#")[0].rpartition(":")[2])
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
    reloads = "return sessionStorage.getItem('lab-live-reloads')"
    browser.until(lambda: int(browser.run(reloads) or 0) > 1, "the page to be loaded again")
    block([])
    browser.shows("#lab", "lab-semisync")
    assert browser.run(reloads) is None
