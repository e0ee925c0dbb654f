"""Does the live page of a real lab, in a real browser, show what its clients see?"""

import signal

import pytest

from tests.browser.looking import drawn
from tests.fakes.live import LINK
from tests.lab.conftest import read_until

pytestmark = [pytest.mark.long, pytest.mark.alone]
SECONDS = 90
SLIDE = """
  const [css, ms, done] = arguments;
  import('/assets/live/condition.js').then(({ stepOf }) => {
    const slider = document.querySelector(css);
    slider.value = stepOf(ms);
    slider.dispatchEvent(new Event('input'));
    done(document.querySelector('#commits').newest().at);
  });
"""
DRAWN = (
    "const [times, rates] = document.querySelector('#commits').plotted(); return times.map((at, i) => [at, rates[i]])"
)


@pytest.fixture
def page(request, start_command, name, browser):
    """Start `lab live` with a lab of its own, and open the address that it prints; both end with the test."""
    lab = "live-semisync" if request.config.getoption("--pictures") else name
    command = start_command("live", "semisync", "--lab", lab, "--no-open")
    browser.open(read_until(command, "http://")[-1].strip())
    browser.shows("#lab", lab)
    browser.look(1360, 840)
    browser.run(
        "const list = document.querySelector('#window'); list.value = 60; list.dispatchEvent(new Event('change'))"
    )
    browser.until(lambda: (found := drawn(browser)) and found["measured"] and found["law"], "commits", SECONDS)
    later(browser, 12)
    yield browser
    command.send_signal(signal.SIGTERM)
    browser.shows("#gone", "lab live has ended")
    command.wait(SECONDS)


def later(page, seconds):
    """Wait until the page has drawn so many seconds more."""
    now = drawn(page)["at"]
    page.until(lambda: drawn(page)["at"] > now + seconds, f"{seconds} seconds more", SECONDS)


def test_a_slider_slows_the_commits_of_a_real_lab_within_three_seconds(page, picture):
    """To 200 ms: the law is drawn at once, the clients are at it three drawn seconds later, and the proof follows."""
    moved = page.driver.execute_async_script(SLIDE, f"#link-{LINK} input[type=range]", 200)
    assert drawn(page)["preview"] == pytest.approx(20, rel=0.1)

    page.until(lambda: drawn(page)["at"] > moved + 3, "three seconds more", SECONDS)
    after = {at: rate for at, rate in page.run(DRAWN) if at > moved}
    assert min(rate for at, rate in after.items() if at <= moved + 3) <= 24
    page.shows(f"#link-{LINK} .chip", "verified", SECONDS)
    later(page, 12)
    picture(page, "live-semisync")
    assert page.complaints() == []


def test_a_lost_source_and_a_promotion_show_what_was_lost(page, picture):
    """Cut, fall back, kill, promote: the acknowledged rows that are missing are counted on the page."""
    page.look(1360, 840, dark=True)
    page.click(f"[aria-label='Cut {LINK}']")
    page.shows("#explain", "fell back", SECONDS)
    page.until(lambda: drawn(page)["measured"] > 0, "commits without the replica", SECONDS)
    page.click("[aria-label='Kill source']")
    page.shows("#node-source .chip", "exited", SECONDS)
    promote = "[aria-label='Promote replica']"
    page.until(lambda: page.run("return !document.querySelector(arguments[0])?.hidden", promote), "promote", SECONDS)
    page.click(promote)

    lost = "#ledger .lost dd"
    page.until(lambda: page.text(lost).replace("\u202f", "").isdigit(), "the check of the ledger", SECONDS)
    assert page.text(lost) != "0"
    page.until(lambda: drawn(page)["measured"] > 0, "commits on the new source", SECONDS)
    page.shows("#picture a[href='#node-replica']", "source")
    page.shows("#node-replica .chip", "serving", SECONDS)
    later(page, 5)
    page.run("scrollTo(0, 0)")
    picture(page, "live-lost")
    page.look(360, 740)
    picture(page, "live-phone")
