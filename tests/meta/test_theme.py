"""Can everybody read the theme's colours, and is the chart library the one that it says it is?"""

import hashlib
import re

import pytest
from replication_lab.world import catalogue

ASSETS = catalogue.ROOT / "harness/replication_lab/assets"
THEME = (ASSETS / "theme.css").read_text()
PAIRS = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", THEME)
COLOURS = {name: pair for name, *pair in PAIRS}
SURFACES = ("page", "surface", "raised")
WORDS = ("good", "bad", "doubt", "note")
SERIES = [f"series-{number}" for number in range(1, 7)]
DIGESTS = dict(re.findall(r"\| `([\w.]+)` \|.*\| `([0-9a-f]{64})` \|", (ASSETS / "uplot/ORIGIN.md").read_text()))


def luminance(colour: str) -> float:
    """Return the relative luminance of #rrggbb, by the formula of WCAG 2."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, 1 to 21, by the formula of WCAG 2."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def too_low(wanted: float, fronts, backs) -> list[str]:
    """Return the pairs of a colour and what is behind it whose contrast is below `wanted`, in light and in dark."""
    return [
        f"{front} on {back}, {mode}"
        for front in fronts
        for back in backs
        for at, mode in enumerate(("light", "dark"))
        if contrast(COLOURS[front][at], COLOURS[back][at]) < wanted
    ]


def test_text_is_readable_on_every_surface():
    """WCAG's 4.5:1, for plain and muted text, links and the words of a verdict."""
    assert too_low(4.5, ("ink", "muted", "accent", *WORDS), SURFACES) == []


def test_a_word_is_readable_on_its_tint():
    """A verdict on its own colour, and the text of a pressed button."""
    assert [each for word in WORDS for each in too_low(4.5, (word,), (f"{word}-soft",))] == []
    assert too_low(4.5, ("on-accent",), ("accent",)) == []


def test_lines_and_borders_of_controls_are_seen():
    """WCAG's 3:1 for what is not text."""
    assert too_low(3, (*SERIES, "edge"), SURFACES) == []


def test_a_pale_colour_is_found():
    """The colour of thin lines would not do for text or series."""
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert too_low(3, ("line",), ("surface",)) == ["line on surface, light", "line on surface, dark"]


@pytest.mark.parametrize("name", ["uPlot.iife.min.js", "uPlot.min.css", "LICENSE"])
def test_the_chart_library_is_the_one_of_its_digest(name):
    """A change of the copied files is a change of their version, which ORIGIN.md has to say."""
    assert hashlib.sha256((ASSETS / "uplot" / name).read_bytes()).hexdigest() == DIGESTS[name]
