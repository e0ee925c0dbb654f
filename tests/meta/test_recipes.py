"""Does each command of docs/recipes.md parse, and pass everything that is refused before a lab starts?"""

import re

import pytest
from click.testing import CliRunner
from replication_lab import cli
from replication_lab.runner import world

from tests.recipes.page import make_files, questions, recipes, shortened

EVERY = recipes()


class _Passed(Exception):
    """The command would now ask the Docker engine."""


@pytest.fixture
def typed(monkeypatch, tmp_path):
    """Type a command in a folder with the files of the recipes; it ends where it would ask the Docker engine."""
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)

    def passed():
        raise _Passed

    monkeypatch.setattr(world.docker_engine, "ensure", passed)
    return lambda arguments: CliRunner().invoke(cli.cli, arguments, prog_name="lab")


def test_every_command_of_the_page_is_extracted():
    """Each section is a recipe with its commands, and there is no command elsewhere in a block."""
    text = questions()

    assert len(EVERY) == len(re.findall(r"^## ", text, re.MULTILINE)) >= 12
    extracted = sum(len(each.commands) for each in EVERY)
    assert extracted == len(re.findall(r"^\s*(?:\$ )?(?:\./)?lab ", text, re.MULTILINE))
    assert len(re.findall(r"^```sh$", text, re.MULTILINE)) == len(EVERY)


@pytest.mark.parametrize("shorten", [tuple, shortened], ids=["as printed", "shortened"])
@pytest.mark.parametrize("recipe", EVERY, ids=[each.name for each in EVERY])
def test_a_recipe_is_not_refused(recipe, shorten, typed):
    """As it is printed, and as the tests on servers run it; a saved question is read again."""
    for arguments in recipe.commands:
        found = typed(shorten(arguments))

        assert isinstance(found.exception, _Passed), f"{found.exception}{found.output}"
