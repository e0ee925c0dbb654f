"""The commands of README and of the book, the files that they name, and where each block of them is run."""

import gzip
from functools import cache
from pathlib import Path

import msgspec
from replication_lab.world import catalogue

from tests.pages.blocks import Block, blocks, write
from tests.recipes import page as recipes

ROOT = catalogue.ROOT
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
HERE = Path(__file__).parent
# Files that a page names without printing them: what each contains, by the name on the page.
FROM_RECIPES = {"ours.cnf": "my.cnf", "replica.cnf": "my.cnf", "shop.sql": "shop.sql"}


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A block of commands, by its first line, and one of: the test that runs it, `run: true`, the reason why none does.

    Blocks with `run` are run by tests/lab/test_docs_commands.py, after the commands of `before`.
    """

    first: str
    by: str = ""
    run: bool = False
    before: list[str] = []
    why_not: str = ""

    @property
    def ways(self) -> list[str | bool]:
        return [way for way in (self.by, self.run, self.why_not) if way]


@cache
def rows() -> dict[str, list[Row]]:
    """Return the rows of commands.yaml by page, in the order of the page's blocks."""
    return msgspec.yaml.decode((HERE / "commands.yaml").read_bytes(), type=dict[str, list[Row]])


@cache
def of_shell(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "sh"]


def first_lines() -> dict[str, list[str]]:
    """Return the first command of each block, by page."""
    return {page.name: [block.commands[0] for block in of_shell(page)] for page in PAGES if of_shell(page)}


def of_lab() -> list[tuple[str, str]]:
    """Return each `./lab` command of a block, with its page."""
    lines = [(page.name, line) for page in PAGES for block in of_shell(page) for line in block.commands]
    return [(page, line) for page, line in lines if line.startswith("./lab ")]


def make_files(folder: Path) -> None:
    """Put the files that the pages name into a folder: those that a page prints, and others of the same kinds."""
    recipes.make_files(folder)
    for name, kept in FROM_RECIPES.items():
        (folder / name).write_text((recipes.HERE / kept).read_text())
    for path in (HERE / "files").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "rows.sql.gz").write_bytes(gzip.compress((HERE / "files" / "more.sql").read_bytes()))
    # Items for each id that the transactions of the page choose.
    items = ", ".join(f"({number}, 'item', 1000000)" for number in range(5, 10_001))
    (folder / "items.sql").write_text(f"INSERT INTO item (id, name, stock) VALUES {items};\n")
    for page in PAGES:
        if page.name != "adding.md":
            write(blocks(page), folder)
