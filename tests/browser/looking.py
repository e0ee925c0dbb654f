"""What tests of the live page look at."""

from selenium.webdriver.common.keys import Keys

from tests.fakes.live import LINK

CARD, SLIDER = f"#link-{LINK}", f"#link-{LINK} input[type=range]"


def drawn(page) -> dict:
    """Return the newest point of the chart of commits, and the law that the slider asks for, as the chart has them."""
    return page.run("return document.querySelector('#commits').newest()")


def slide_to_the_end(page) -> None:
    """Move the slider to 300 ms by the keyboard."""
    page.press(SLIDER, Keys.END)
