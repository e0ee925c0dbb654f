"""Can everybody read a report in a real browser, and does it do what its scripts promise?"""

from pathlib import Path

import pytest
from replication_lab import runs
from replication_lab.model.comparing.comparison import compare
from replication_lab.report import compared, index

from tests.records import golden
from tests.records.timed import add_timelines

LOOKS = {
    "light": {"dark": False},
    "dark": {"dark": True},
    "phone": {"width": 360, "height": 740, "dark": False},
}
# Of a record with the timelines that it would have today.
TIMED = "+seconds"
RECORDS = {
    "question": "ask_topologies",
    "engines": "temporary_tables",
    "drills": "drill-semisync-3",
    "claims": "semisync_wan",
    "seconds": f"semisync_wan{TIMED}",
}
UNFOLD = "for (const part of document.querySelectorAll('details')) part.open = true"
POINT = """
  const over = document.querySelector(arguments[0]), box = over.getBoundingClientRect();
  const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true };
  over.dispatchEvent(new MouseEvent('mouseenter', at));
  over.dispatchEvent(new MouseEvent('mousemove', at));
"""
SHOWN = "return [...document.querySelectorAll('table.filtered tbody tr')].filter(row => !row.hidden).length"


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """Return a function that writes the report of a kept record, once for all tests: the page's file."""
    folder, pages = tmp_path_factory.mktemp("reports"), {}

    def page(name: str) -> Path:
        if name not in pages:
            run = golden.unpack(name.removesuffix(TIMED), folder / name)
            if name.endswith(TIMED):
                add_timelines(run)
            runs.report(str(run))
            pages[name] = run / "report.html"
        return pages[name]

    return page


def opened(browser, page: Path):
    """Open a page and draw its first chart."""
    browser.open(page.as_uri())
    if browser.run("return Boolean(document.querySelector('figure.plot script'))"):
        browser.run("document.querySelector('figure.plot').scrollIntoView()")
        browser.until(lambda: browser.run("return document.querySelector('figure.plot.live canvas')"), "a drawn chart")
    return browser


def test_a_report_is_filtered_and_drawn(browser, reported, picture):
    """One click leaves the refuted claims, a word the one with it; the charts are drawn; nothing is fetched."""
    page = reported("semisync_wan")
    opened(browser, page)

    assert browser.run(SHOWN) == 17
    browser.click("button[data-value='note']")
    assert browser.run(SHOWN) == 3
    browser.press("input[type='search']", "64 clients")
    assert browser.run(SHOWN) == 1
    assert browser.text(".filters [role='status']") == "1 of 17"
    assert browser.complaints() == []
    assert {address.partition(":")[0] for address in browser.requests()} <= {"file", "data"}
    opened(browser, page)
    browser.run("scrollTo(0, 0)")
    picture(browser, "report")


def test_a_series_is_hidden_by_the_keyboard(browser, reported):
    """The legend has a button for each line, which says whether the line is shown."""
    opened(browser, reported("semisync_wan"))
    button = ".u-legend .u-series:nth-child(2) button"
    browser.press(button, " ")

    assert browser.attribute(button, "aria-pressed") == "false"
    assert browser.run("return document.querySelector('.u-legend .u-series:nth-child(2)').classList.contains('u-off')")


def test_the_picture_of_a_drill(browser, reported, picture):
    """The overview and the first timeline are seen; the phases stand below the charts."""
    opened(browser, reported("drill-semisync"))
    browser.run("document.querySelector('#drill-lose-source-asynchronous').scrollIntoView()")
    drawn = "return document.querySelectorAll('#drill-lose-source-asynchronous ~ figure.live canvas').length"
    browser.until(lambda: browser.run(drawn) >= 2, "the charts of the drill")

    assert "Phases" in browser.text("section[aria-labelledby='drill-lose-source-asynchronous']")
    assert browser.complaints() == []
    picture(browser, "report-drill")


def test_the_seconds_of_all_rounds_are_folded_and_drawn_on_demand(browser, reported):
    """Rounds and cases are bands; the legend names the case under the pointer; axe-core finds no barrier."""
    opened(browser, reported(f"semisync_wan{TIMED}"))
    drawn = "return document.querySelectorAll('details.seconds figure.live canvas').length"
    assert browser.run(drawn) == 0
    browser.run("document.querySelector('details.seconds').open = true")
    browser.run("document.querySelector('details.seconds').scrollIntoView()")
    browser.until(lambda: browser.run(drawn) >= 2, "the charts of the rounds")
    browser.run(POINT, "details.seconds figure.live .u-over")

    assert "case: " in browser.text("details.seconds figure.live .u-legend")
    assert browser.complaints() == []
    assert browser.barriers() == []


def test_a_report_has_no_barrier(browser, reported):
    """axe-core finds none in the smallest one; the others are asked in the long tests."""
    opened(browser, reported("drill-semisync-3"))

    assert browser.barriers() == []


@pytest.mark.long
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("record", RECORDS)
def test_everybody_can_read_a_report(browser, reported, record, look):
    """axe-core finds no barrier with everything unfolded; nothing is wider than the page."""
    opened(browser, reported(RECORDS[record]))
    browser.look(**LOOKS[look])
    browser.run(UNFOLD)

    assert browser.barriers() == []
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.long
def test_everybody_can_read_the_other_pages(browser, reported, tmp_path):
    """The page of all runs, and a comparison of two."""
    run = reported("semisync_wan").parent
    found = [index.IndexedRun(name, index.decode((run / "summary.json").read_bytes())) for name in ("one", "two")]
    (tmp_path / "index.html").write_text(index.render(found))
    digest = runs.digest_of(str(run))
    (tmp_path / "compared.html").write_text(compared.page_text(compare([digest], [digest], 0.1), 0.1))
    for page in ("index.html", "compared.html"):
        opened(browser, tmp_path / page)
        assert browser.barriers() == []
        assert browser.complaints() == []


@pytest.mark.long
def test_a_report_without_scripts_shows_all(browser, reported):
    """Its pictures, its rows and its tables; the filters, which would do nothing, are not there."""
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(reported("drill-semisync-3").as_uri())
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})

    assert browser.run("return [...document.querySelectorAll('svg.chart')].every(each => each.clientWidth > 0)")
    assert browser.run("return document.querySelector('.filters').clientWidth") == 0
    assert browser.run("return document.querySelectorAll('canvas').length") == 0
