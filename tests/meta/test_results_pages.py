"""Does each page of results answer its question first, with figures of its own record?"""

import re

import pytest
from replication_lab.experiments import load, names
from replication_lab.model.core.errors import LabError
from replication_lab.model.experiment.published import parse_data
from replication_lab.world import catalogue

DOCS = catalogue.ROOT / "docs"
PAGES = ("semisync_wan", "galera_vs_semisync", "temporary_tables", "raid_replica", "drbd_cost")
# Measured questions with a chart that are a section of a page: the page of each.
SECTIONS = {"raid_appliers": "raid_replica", "raid0_disks": "raid_replica"}
ANSWERS = (*PAGES, *SECTIONS)
LINES = 3
LONGEST_TABLE = 10
TRIPLE = re.compile(r"(-?[\d.]+)[^\[\d]{0,24}\[([\d.]+)–([\d.]+)\]")


def parts(name):
    """Return the title, the answer and the rest; the figures of an answer are of a kept record (tests/kept.py)."""
    before, made, after = text_of(name).partition(f"<!-- from a kept record: first_lines {name} -->\n\n")
    title, answer, rest = (
        f"{before.strip().splitlines()[-1]}\n\n{after}".split("\n\n", 2) if made else before.split("\n\n", 2)
    )
    return title, answer, rest


def text_of(name):
    """Return the page that has the answer of a measured question."""
    return (DOCS / f"{SECTIONS.get(name, name)}.md").read_text()


@pytest.mark.parametrize("page", [*ANSWERS, "faults"])
def test_a_page_answers_its_question_in_three_lines_and_shows_one_chart(page):
    """The title, the answer in bold, then a picture of the book."""
    title, answer, rest = parts(page)

    assert title.startswith("## " if page in SECTIONS else "# ") and (title.endswith("?") or page == "faults")
    assert len(answer.splitlines()) <= LINES and "**" in answer.splitlines()[0]
    assert rest.startswith("![") and f"]({page}.svg)" in rest.splitlines()[0]


def fits(said: tuple[str, ...], found: tuple[str, ...]) -> bool:
    """Return whether figures are those of a table, to as many digits as are said, or in per cent."""
    for times in (1, 100):
        if all(abs(float(a) - float(b) * times) <= half_a_digit(a) for a, b in zip(said, found, strict=True)):
            return True
    return False


def half_a_digit(said: str) -> float:
    return 0.5001 * 10.0 ** -len(said.partition(".")[2])


@pytest.mark.parametrize("page", ANSWERS)
def test_the_figures_of_an_answer_are_those_of_the_page_s_tables(page):
    """Each value with its interval, rounded."""
    _, answer, rest = parts(page)
    said, found = TRIPLE.findall(" ".join(answer.split())), set(TRIPLE.findall(rest))

    assert said
    assert [each for each in said if not any(fits(each, one) for one in found)] == []


def test_a_figure_that_is_in_no_table_is_noticed():
    """Neither as it is, nor in per cent."""
    assert fits(("66", "64", "68"), ("0.6606", "0.6448", "0.6768"))
    assert fits(("1.41", "1.31", "1.51"), ("1.408", "1.313", "1.509"))
    assert not fits(("1.42", "1.31", "1.51"), ("1.408", "1.313", "1.509"))


@pytest.mark.parametrize("page", PAGES)
def test_long_tables_are_folded(page):
    """A table of more rows is in <details>, which GitHub and the site both fold."""
    text = re.sub(r"<details.*?</details>", "", (DOCS / f"{page}.md").read_text(), flags=re.S)
    tables = re.findall(r"(?:^\|.*\n)+", text, re.M)

    assert [table.splitlines()[0] for table in tables if table.count("\n") - 2 > LONGEST_TABLE] == []


@pytest.mark.parametrize("page", [name for name in ANSWERS if name != "raid_appliers"])
def test_a_page_and_its_reports_cite_the_source_of_the_published_figures(page):
    """The words of sources.yaml; raid_appliers refers to another section."""
    published = load(page).data.published
    text = " ".join(text_of(page).translate(str.maketrans("", "", "<>")).split())
    citation = catalogue.sources()[published.cites].citation()

    assert f"Source: {citation}" in text
    assert published.source.startswith(citation)


@pytest.mark.parametrize("name", names())
def test_published_figures_have_a_source(name):
    """Rows, or claims with a published value, cite an entry of sources.yaml."""
    data = load(name).data

    if data.published.rows or any(claim.published is not None for claim in data.claims.values()):
        assert data.published.cites in catalogue.sources()


def test_a_source_says_what_was_not_found():
    """An entry without author, title or address is not silent about it."""
    for source in catalogue.sources().values():
        assert (source.author and source.title and source.url) or "not found" in source.known


def test_an_unknown_source_is_refused():
    """With the most similar name."""
    with pytest.raises(LabError) as refused:
        parse_data("published: {source: x, cites: mysql-on-drdb}").citing(catalogue.sources())

    assert "mysql-on-drbd" in str(refused.value)
