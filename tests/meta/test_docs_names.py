"""Are all names that a command accepts on the page that lists them, and do headings name what exists?"""

import re

import pytest
from replication_lab.experiments import names as experiments
from replication_lab.world import catalogue

DOCS = catalogue.ROOT / "docs"
LISTED = {
    "topologies": (catalogue.topologies, "topologies"),
    "engines": (catalogue.engines, "topologies"),
    "toxics": (catalogue.toxics, "topologies"),
    "disks": (catalogue.disks, "disks"),
}


@pytest.mark.parametrize(("known", "page"), LISTED.values(), ids=list(LISTED))
def test_a_page_lists_every_name(known, page):
    """A name that is missing there is not found by a reader."""
    text = (DOCS / f"{page}.md").read_text()

    assert [name for name in known() if f"`{name}`" not in text] == []


def test_every_experiment_is_on_a_page():
    """With the command that runs it."""
    pages = "".join(page.read_text() for page in DOCS.glob("*.md"))

    assert [name for name in experiments() if f"lab run {name}" not in pages] == []


def test_headings_name_drills_that_exist():
    """A heading such as: lose-source of `async`."""
    headings = re.findall(r"^### (.+) of `([\w-]+)`$", (DOCS / "drills.md").read_text(), re.M)
    named = [(topology, drill) for drills, topology in headings for drill in drills.split(" and ")]

    assert len(named) > 5
    assert [each for each in named if each[1] not in catalogue.drills(each[0])] == []
