"""Are the parts of pages that are made from the code those of today's code, and are they on the pages themselves?"""

import re

import pytest
import replication_lab
from replication_lab import faults
from replication_lab.world import catalogue

from tests import made_parts

DOCS = catalogue.ROOT / "docs"


def text_of(name):
    return (DOCS / f"{name}.md").read_text()


@pytest.mark.parametrize("path", made_parts.PAGES, ids=lambda path: path.stem)
def test_the_parts_of_a_page_are_those_of_today_s_code(path):
    """Else: make texts."""
    assert path.read_text() == made_parts.page(path), "make texts"
    assert path.read_text().count("<!-- made: ") == len(made_parts.PART.findall(path.read_text()))


def test_every_kind_of_part_is_on_a_page():
    """A reader of the repository sees it, without building the site."""
    found = {name for path in made_parts.PAGES for _, name, _ in made_parts.PART.findall(path.read_text())}

    assert found == set(made_parts.MAKERS)


def test_a_part_that_was_changed_by_hand_is_made_again(tmp_path):
    """What stands before and behind it is kept."""
    page = tmp_path / "drills.md"
    page.write_text(f"# A title\n\n<!-- made: fault_table -->\n\nStale.\n\n{made_parts.END}\n\nMore.\n")
    made = made_parts.page(page)

    assert made.startswith("# A title\n\n<!-- made: fault_table -->\n\n| fault | targets |")
    assert "Stale." not in made and made.endswith(f" |\n\n{made_parts.END}\n\nMore.\n")


def test_the_page_of_drills_has_a_row_for_each_fault():
    """With its description in the code."""
    page = text_of("drills")

    assert [
        name for name, kind in faults.kinds().items() if f"| `{name}` | {kind.targets} | {kind.does} |" not in page
    ] == []


def test_the_page_of_names_describes_every_public_name():
    """Each has a docstring; no address of this process is printed."""
    page = text_of("api")
    sections = dict(part.partition("\n")[::2] for part in page.split("\n## ")[1:])

    assert list(sections) == replication_lab.__all__
    assert [name for name, text in sections.items() if len(text.split("```")[2].strip().split("\n")[0]) < 20] == []
    assert " at 0x" not in page and "replication_lab." not in page.partition("## ")[2]


def test_the_page_of_engines_lists_what_lab_engines_lists():
    """Each engine, and each recorded test."""
    page = text_of("topologies")

    assert re.findall(r"^\| `(\S+)` \| \S+ \| [^|]+ \| [^|]+ \|$", page, re.M) == list(catalogue.engines())
    assert len(re.findall(r"\| \d{4}-\d\d-\d\d \|", page)) == sum(map(len, catalogue.tested().values()))
