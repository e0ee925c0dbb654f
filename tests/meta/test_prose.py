"""Is the prose of the book wrapped, so that a diff shows a sentence and a terminal shows a line?"""

import re

import pytest
from replication_lab.world import catalogue

ROOT = catalogue.ROOT
PAGES = sorted((ROOT / "docs").glob("*.md"))
FOLDERS = ("docs", "harness", "tests")
ALL = [*sorted(ROOT.glob("*.md")), *(path for name in FOLDERS for path in sorted((ROOT / name).rglob("*.md")))]
WIDEST, WIDEST_OF_CHANGES = 100, 120
CODE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
# Tables, headings, pictures (a badge is one in a link) and lines of HTML cannot be wrapped.
UNWRAPPED = re.compile(r"^\s*(\||#|\[?!\[|<)")


def too_wide(text: str, widest: int = WIDEST) -> list[str]:
    """Return the lines of prose that are wider, but for one that has a single word or piece of code."""
    lines = [line for line in CODE.sub("", text).splitlines() if not UNWRAPPED.match(line)]
    return [line for line in lines if len(line) > widest and " " in re.sub(r"`[^`]*`", "", line).strip(" -*.,;:")]


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_prose_is_wrapped(page):
    """Tables and code are as wide as they are."""
    assert too_wide(page.read_text(), WIDEST_OF_CHANGES if page.stem == "CHANGELOG" else WIDEST) == []


def test_a_line_that_is_too_wide_is_noticed():
    """Code in a fence, a table and a long command alone are not prose."""
    wide = "a word " * 20
    fenced, table, command = f"```sh\n{wide}\n```", f"| {wide} |", f"`{wide}`"

    assert too_wide(f"{fenced}\n{table}\n{command}") == []
    assert too_wide(wide) == [wide]


FIRST_LINES = 3
# What stands before an answer that is made from a kept record.
MADE = re.compile(r"^<!-- from a kept record: first_lines \w+ -->\n\n", re.M)
NO_PROSE = re.compile(r"\||- |\d+\. |```|!\[|<|#")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_begins_with_its_answer(page):
    """A title, then prose of at most three lines."""
    title, answer, *_ = MADE.sub("", page.read_text()).split("\n\n")

    assert title.startswith("# ") and "\n" not in title
    assert len(answer.splitlines()) <= FIRST_LINES and not NO_PROSE.match(answer)
