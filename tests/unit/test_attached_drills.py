"""Are the drills of attached projects drills once they are filled in, and are impossible ones refused?"""

import pytest
from click.testing import CliRunner
from replication_lab import cli
from replication_lab.model.errors import LabError
from replication_lab.runner import attached, drill_set
from replication_lab.world import catalogue

WORDS = {"link": "source-replica", "consumer": "replica", "server": "source", "writer": "source", "node": "source"}


@pytest.mark.parametrize("name", catalogue.drills("attached"))
def test_a_file_filled_in_is_a_drill(name):
    """No word is left to fill in, and every target exists."""
    text = attached._filled(catalogue.drill_file("attached", name).read_text(), WORDS)
    drill = drill_set.parse(name, catalogue.topology("semisync"), text, name)

    assert "{" not in drill.about and drill.clients == {"source": 4}
    assert {target for step in drill.steps for target in step.targets} <= {"source", "source-replica"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--probe", "http://127.0.0.1:1/"], "--probe without --lab"),
        (["semisync", "--lab", "no-such-lab"], "--lab no-such-lab with semisync"),
    ],
)
def test_what_is_no_drill_of_an_attached_project_is_refused(arguments, message):
    """One message, before anything starts."""
    ended = CliRunner().invoke(cli.cli, ["drill", *arguments], prog_name="lab")

    assert isinstance(ended.exception, LabError)
    assert message in str(ended.exception)
