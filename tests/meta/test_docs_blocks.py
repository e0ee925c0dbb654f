"""Is each block of code in README and the book read by what would read it for a reader?"""

import msgspec
import pytest
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.experiment.published import parse_data
from replication_lab.model.lab import option_file
from replication_lab.model.lab.toxic import parse_toxic
from replication_lab.model.question import sql_load
from replication_lab.runner import drill_set
from replication_lab.world import catalogue

from tests.pages import commands
from tests.pages.blocks import FENCE, blocks

# Commands: test_docs_commands.py. Output and pictures: nothing reads them. Blocks of pytest.md: test_pytest_plugin.py
# compares them with files that are tested. Files of adding.md: test_adding.py.
ELSEWHERE = {"sh", "text", "toml"}
FOUND = [(page, block) for page in commands.PAGES for block in blocks(page)]
READ = [
    pytest.param(page.stem, block, id=f"{page.stem}:{block.line}")
    for page, block in FOUND
    if block.language not in ELSEWHERE and page.stem not in ("adding", "pytest")
]


def as_drill(text):
    assert drill_set.parse("kill-node", catalogue.topology("galera"), text).expected


def as_data(text):
    assert parse_data(text).expected


def as_action(text):
    """Require inputs that the project's action has."""
    action = msgspec.yaml.decode((catalogue.ROOT / ".github/actions/lab/action.yml").read_bytes())
    (step,) = (each for each in msgspec.yaml.decode(text)["jobs"]["replication"]["steps"] if "with" in each)

    assert step["with"] and set(step["with"]) <= set(action["inputs"])


def as_job(text):
    """Require a job of the project's file, and variables that its script reads."""
    job = msgspec.yaml.decode(text)["replication"]
    script = "".join((catalogue.ROOT / "docs" / "ci" / name).read_text() for name in ("gitlab.yml", "pipeline.sh"))

    assert f"\n{job['extends']}:" in script and [name for name in job["variables"] if name not in script] == []


def as_option_file(text):
    assert option_file.options_of(GivenFile("fast.cnf", text))


def as_transactions(text):
    assert len(sql_load.transactions(GivenFile("orders.sql", text))) > 1


def as_toxic(text):
    assert parse_toxic("own", text).about


def as_schema(text):
    """Require a schema that is in the book."""
    assert (catalogue.ROOT / "docs" / text.strip().rpartition("/")[2]).is_file()


def as_python(text):
    compile(text, "a block", "exec")


# By page where a language has several readers.
READERS = {
    "json": as_toxic,
    "ini": as_option_file,
    "sql": as_transactions,
    "python": as_python,
    "yaml drills": as_drill,
    "yaml statistics": as_data,
    "yaml summary": as_schema,
    "yaml ci": [as_action, as_job],
    "yaml recipes": [as_action, as_job],
}


@pytest.mark.parametrize(("page", "block"), READ)
def test_a_block_is_read(page, block):
    """Without a mistake, and with what it is there to show."""
    reader = READERS.get(block.language) or READERS[f"{block.language} {page}"]
    if isinstance(reader, list):
        first = next(each for name, each in FOUND if name.stem == page and each.language == block.language)
        reader = reader[block != first]
    reader(block.text)


@pytest.mark.parametrize("page", commands.PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_is_extracted(page):
    """Each fence has a language and an end, so that no block is left out."""
    assert len(FENCE.findall(page.read_text())) == 2 * len(blocks(page))


def test_a_block_with_a_mistake_is_refused():
    """Each reader says so."""
    for reader, text in ((as_drill, "about: x"), (as_data, "publised: 1"), (as_python, "def f("), (as_toxic, "{}")):
        with pytest.raises(Exception, match=r"."):
            reader(text)
