"""A real browser for tests of pages: Chromium without a window, its logs, an check for barriers, pictures for the docs.

Loaded by tests/conftest.py; a test asks for the fixture `browser`.
"""

import importlib.resources
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.world import catalogue, lock
from replication_lab.world.installing import APT_INSTALL, HostChange, allow, make

PACKAGES = ("chromium", "chromium-driver")
# Other distributions call the programs differently.
BROWSERS, DRIVERS = ("chromium", "chromium-browser", "google-chrome"), ("chromedriver", "chromium.chromedriver")
# What is waited for comes; the deadline ends a test that hangs.
PATIENCE_S = 20
PICTURES, MOST_BYTES = catalogue.ROOT / "docs/images", 200_000
FLAGS = (
    "--headless=new",
    "--hide-scrollbars",
    "--force-prefers-reduced-motion",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    # The browser's own errands would be requests that no page made.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", action="store_true", help="write the pictures of the docs: make pictures")


def programs() -> tuple[str, str]:
    """Return the browser and its driver, which are installed if they are missing; LabError if they cannot be."""
    with lock.held("chromium"):
        if not (found := _found()):
            _install()
            found = _found()
    if not found:
        raise LabError("Chromium was installed and is not there", " and ".join(PACKAGES), "apt-cache policy chromium")
    return found


def _found() -> tuple[str, str] | None:
    browser, driver = (next(filter(None, map(shutil.which, names)), None) for names in (BROWSERS, DRIVERS))
    return (browser, driver) if browser and driver else None


def _install() -> None:
    if not shutil.which("apt-get"):
        raise LabError("no Chromium on this machine, and no apt to install it", "chromium and chromedriver")
    commands = [["apt-get", "update", "-q"], [*APT_INSTALL, *PACKAGES]]
    change = HostChange("Chromium and its driver (tests look at pages with them)", commands, PACKAGES)
    allow(change)
    make(change)


class Browser:
    """A window of Chromium; `look` sets its size and its colours."""

    def __init__(self, driver: Any):
        self.driver = driver

    def open(self, address: str) -> None:
        self.driver.get(address)

    def run(self, script: str, *given: Any) -> Any:
        return self.driver.execute_script(script, *given)

    def text(self, css: str) -> str:
        """Return the text of the first element, "" if there is none; hidden text too."""
        return self.run("return document.querySelector(arguments[0])?.textContent ?? ''", css)

    def attribute(self, css: str, name: str) -> str | None:
        return self.run("return document.querySelector(arguments[0])?.getAttribute(arguments[1])", css, name)

    def click(self, css: str) -> None:
        """Click as a hand does: the element is scrolled to, and nothing may cover it."""
        element = self.driver.find_element("css selector", css)
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        element.click()

    def press(self, css: str, *keys: str) -> None:
        self.driver.find_element("css selector", css).send_keys(*keys)

    def until(self, condition: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> Any:
        """Return the first true value of `condition`; fail with what was waited for and the page's text."""
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > deadline:
                pytest.fail(
                    f"waited {seconds:g} s for {what}; the page shows:\n{self.text('body')}\n{self.complaints()}"
                )
            time.sleep(0.02)
        return value

    def shows(self, css: str, text: str, seconds: float = PATIENCE_S) -> None:
        """Wait until an element has a text in it."""
        self.until(lambda: text in self.text(css), f"{text!r} in {css}, which has {self.text(css)!r}", seconds)

    def look(self, width: int = 1440, height: int = 900, dark: bool = False) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    @contextmanager
    def tab(self) -> Iterator[None]:
        """Look at another tab within the block."""
        first = self.driver.current_window_handle
        self.driver.switch_to.new_window("tab")
        try:
            yield
        finally:
            self.driver.close()
            self.driver.switch_to.window(first)

    def requests(self) -> list[str]:
        """Return the addresses of all requests since the last call, from the browser's own log."""
        messages = [json.loads(line["message"])["message"] for line in self.driver.get_log("performance")]
        return [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        """Return the warnings and errors of the console: of scripts, of the security policy, of missing files.

        Requests that ended because a container's interface came or went are no fault of the page.
        """
        lines = [line["message"] for line in self.driver.get_log("browser") if line["level"] in ("WARNING", "SEVERE")]
        return [line for line in lines if "ERR_NETWORK_CHANGED" not in line]

    def barriers(self) -> list[str]:
        """Return what axe-core finds that keeps somebody from using the page, a line for each kind."""
        axe = importlib.resources.files("axe_core_python") / "axe.min.js"
        self.run(axe.read_text(encoding="utf-8"))
        check = (
            "const done = arguments[0]; axe.run(document).then(found => done(found.violations), error => done([error]))"
        )
        found = self.driver.execute_async_script(check)
        return [f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes']]}" for each in found]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Start one browser for all tests of a process; without one the tests are skipped, and say what is missing."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    try:
        browser, driver = programs()
    except LabError as error:
        pytest.skip(f"no Chromium to look at pages with: {error.found}")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # With the driver's path selenium looks for none and downloads none.
    found = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield found
    finally:
        found.quit()


@pytest.fixture
def browser(chromium: Any) -> Iterator[Browser]:
    """Open a new tab without cookies, in light colours and a desktop's size."""
    first = chromium.current_window_handle
    chromium.switch_to.new_window("tab")
    chromium.execute_cdp_cmd("Network.clearBrowserCookies", {})
    opened = Browser(chromium)
    opened.look()
    opened.requests(), opened.complaints()
    yield opened
    chromium.close()
    chromium.switch_to.window(first)


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[[Browser, str], None]:
    """Return a function that writes what a browser shows to docs/images, if pictures are asked for."""

    def write(browser: Browser, name: str) -> None:
        if request.config.getoption("--pictures"):
            png = browser.driver.get_screenshot_as_png()
            assert len(png) <= MOST_BYTES, f"{name} has {len(png)} bytes"
            PICTURES.mkdir(exist_ok=True)
            (PICTURES / f"{name}.png").write_bytes(png)

    return write
