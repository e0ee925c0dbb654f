"""Extract the recipes from docs/recipes.md, and make the files that they name."""

import gzip
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from replication_lab.world import catalogue

HERE = Path(__file__).parent
PAGE = catalogue.ROOT / "docs" / "recipes.md"
# The recipes of the page's last part do something, and are not questions.
TASKS = "\n## Tasks\n"
# A recipe: its heading, the block of commands, and how to read the answer.
RECIPE = re.compile(r"^## (?P<title>.+\?)\n\n```sh\n(?P<commands>(?:\./lab .+\n)+)```\n\n(?=\S)", re.MULTILINE)


@dataclass(frozen=True)
class Recipe:
    """A question, and the arguments of each `lab` command that answers it."""

    title: str
    commands: tuple[tuple[str, ...], ...]

    @property
    def name(self) -> str:
        """Return the title as the id of a test."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


def questions() -> str:
    """Return the part of the page with questions."""
    return PAGE.read_text().partition(TASKS)[0]


def recipes() -> list[Recipe]:
    return [_recipe(found) for found in RECIPE.finditer(questions())]


def _recipe(found: re.Match[str]) -> Recipe:
    lines = found["commands"].splitlines()
    return Recipe(found["title"], tuple(tuple(shlex.split(line)[1:]) for line in lines))


def shortened(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command with the fewest rounds, a second of load and one drill; that of a saved question is as saved."""
    if command[0] != "ask":
        return command
    drills = ("--drill-runs", "1") if "--drill" in command else ()
    return (*command, "--runs", "3", "--duration", "1", "--noise", "accept", *drills)


def make_files(folder: Path) -> None:
    """Put the files that the recipes name into a folder."""
    for name in ("orders.sql", "my.cnf", "old.cnf", "new.cnf"):
        (folder / name).write_text((HERE / name).read_text())
    (folder / "shop.sql.gz").write_bytes(gzip.compress((HERE / "shop.sql").read_bytes()))
