"""Are the figures of the docs drawn from today's records and tables, and readable in dark and in light?"""

import re
from xml.etree import ElementTree

import pytest

from tests import figures

DRAWN = figures.figures()


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_is_the_one_of_its_record_or_table(name):
    """Else: make figures."""
    assert (figures.DOCS / name).read_text() == DRAWN[name](), "make figures"


def test_every_figure_is_drawn():
    """None of them is left over from another program, and each stands on a page."""
    pages = "".join(page.read_text() for page in figures.DOCS.glob("*.md"))

    assert {path.name for path in figures.DOCS.glob("*.svg")} == set(DRAWN)
    assert [name for name in DRAWN if f"]({name})" not in pages] == []


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_stands_alone(name):
    """It is well-formed, has a title, a background and colours for dark and light, and no variable or reference."""
    text = (figures.DOCS / name).read_text()
    root = ElementTree.fromstring(text)

    assert root[0].tag.endswith("title") and root[0].text
    assert "prefers-color-scheme: dark" in text and 'class="back"' in text
    assert re.findall(r"var\(|href=|url\(|light-dark", text) == []


def test_a_changed_table_changes_its_figure(tmp_path, monkeypatch):
    """A figure that is not drawn again is noticed."""
    page = (figures.DOCS / "galera_vs_semisync.md").read_text()
    assert "| 16 | 6160 [5620–6710] |" in page
    (tmp_path / "galera_vs_semisync.md").write_text(
        page.replace("| 16 | 6160 [5620–6710] |", "| 16 | 5160 [4620–5710] |")
    )
    before = DRAWN["galera_vs_semisync.svg"]()
    monkeypatch.setattr(figures, "DOCS", tmp_path)

    assert DRAWN["galera_vs_semisync.svg"]() != before
