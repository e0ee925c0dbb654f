"""Do the pages give figures with at most three significant digits?

A figure is a number with a decimal point, or one with an interval behind it, in prose and tables. Exceptions are
versions, addresses and code; what was published, which is quoted as it was; and counts, which have no decimal point.
"""

import re

import pytest
from replication_lab.world import catalogue

PAGES = [catalogue.ROOT / "README.md", *sorted((catalogue.ROOT / "docs").glob("*.md"))]
MOST = 3
CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`|<!--.*?-->|<https?:[^>]*>|\]\([^)]*\)", re.M | re.S)
PUBLISHED = re.compile(r"^#+ What was published\n.*?(?=^#)|^\| \*published.*?$|\(\d[\d.]*\)(?= \||, \d)", re.M | re.S)
PROGRAMS = r"Maria(?:DB)?|MySQL|and|or|to|Docker(?: Engine)?|Linux|DRBD|Galera"
VERSION = re.compile(rf"\d+\.\d+(?:\.\d+)+\S*|(?:{PROGRAMS}) \d+\.\d+(?=[ ,.:)']|$)", re.M)
FIGURE = re.compile(
    r"(?<![\w.,])(?<!\w-)\d+\.\d+(?!\w|\.\d)|(?<![\w.])\d+(?= \[-?[\d.]+–)|(?<=\[)-?[\d.]+(?=–)|(?<=–)[\d.]+(?=\])"
)


def digits(figure: str) -> int:
    """Return the number of significant digits; zeros at the end of an integer may be placeholders."""
    shown = figure.lstrip("-0.") if float(figure) else ""
    return len((shown if "." in figure else shown.rstrip("0")).replace(".", ""))


def without_published(text: str) -> str:
    """Return a page without the columns of tables that are headed as published, or as versions."""
    kept, columns = [], set()
    for line in text.splitlines():
        cells = line.split("|") if line.startswith("|") else []
        if not cells:
            columns = set()
        elif found := {at for at, cell in enumerate(cells) if cell.strip() in ("published", "version")}:
            columns = found
        kept.append("|".join(cell for at, cell in enumerate(cells) if at not in columns) if columns else line)
    return "\n".join(kept)


def too_exact(text: str) -> list[str]:
    """Return the figures with more significant digits."""
    text = without_published(PUBLISHED.sub("", CODE.sub("", text)))
    return [each for each in FIGURE.findall(VERSION.sub("", text)) if digits(each) > MOST]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_gives_figures_with_three_significant_digits(page):
    """More would not be known, or not be read."""
    assert too_exact(page.read_text()) == []


def test_a_figure_with_more_digits_is_noticed():
    """In prose and in tables, with an interval and without; but neither a version nor what was published."""
    assert too_exact("it took 1.004 s, 6162 [5619–6705] a second") == ["1.004", "6162", "5619", "6705"]
    assert too_exact("| case | measured | published |\n|---|---|---|\n| a | 0.9855 | 1066.8 |") == ["0.9855"]
    assert too_exact("MariaDB 10.11, 11.8.6 and `0.0009999`, 115 018 rows; 6160 [5620–6700] rows/s, 0.00200") == []
