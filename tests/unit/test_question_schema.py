"""Does the schema of a question's file describe what `lab ask --save` writes and `lab run` reads?"""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from replication_lab import cli, experiments, runs
from replication_lab.model.core.errors import LabError
from replication_lab.model.question.question import Question
from replication_lab.world import catalogue

from tests.json_schema import errors
from tests.question_schema import DESCRIBED, schema

DOCUMENT = catalogue.ROOT / "docs" / "question.schema.json"
RENEW = "PYTHONPATH=harness .venv/bin/python -m tests.question_schema > docs/question.schema.json"


def wrong(text: str) -> list[str]:
    return errors(yaml.safe_load(text), json.loads(schema()), json.loads(schema()))


@pytest.fixture
def saved(monkeypatch, tmp_path):
    """Return the file that `lab ask --save` writes with these arguments, before anything starts."""
    monkeypatch.setattr(runs, "run", _stop)

    def ask(*arguments, folder=tmp_path):
        file = folder / "question.yaml"
        found = CliRunner().invoke(cli.cli, ["ask", *arguments, "--save", str(file)], prog_name="lab")
        assert isinstance(found.exception, LabError) and found.exception.found == "stopped", found.exception
        return file

    return ask


def _stop(*_arguments, **_options):
    raise LabError("stopped")


def test_the_documented_schema_is_that_of_the_question():
    """The message tells how to write it anew."""
    assert DOCUMENT.read_bytes() == schema(), f"write it anew: {RENEW}"


def test_every_field_is_described():
    """Describe a new setting in tests/question_schema.py; then renew the schema."""
    assert list(DESCRIBED) == list(Question.__struct_fields__), f"describe it in DESCRIBED, then {RENEW}"


@pytest.mark.parametrize(
    "arguments",
    [
        ["semisync", "--rtt", "40ms", "--vary", "sync_binlog=0,1", "--vary", "clients=1,16"],
        ["async,semisync,galera", "--rtt", "40ms", "--set", "sync_binlog=1", "--engine", "mariadb"],
        [
            "semisync",
            "--vary",
            "engine=mariadb,mysql-8.0",
            "--set",
            "source.sync_binlog=1",
            "--max-duration",
            "5",
            "--margin",
            "5%",
        ],
        ["semisync", "--vary", "source.storage=none,raid0:3", "--disk", "source=ssd", "--storage", "single"],
        ["semisync", "--vary", "replication=async,semisync", "--baseline", "replication=semisync"],
        ["semisync", "--vary", "clients=1,4", "--claim", "p50[clients=4] / p50[clients=1] <= 2"],
        ["semisync", "--vary", "clients=1,4", "--workload", "oltp_read_write", "--runs", "4", "--duration", "2"],
        ["semisync", "--vary", "clients=1,4", "--load-command", "python3 /load.py", "--load-image", "shop:1"],
    ],
)
def test_what_is_saved_is_as_the_schema_says_and_is_read_again(saved, arguments):
    """By its words, and by the type itself."""
    file = saved(*arguments)

    assert wrong(file.read_text()) == []
    assert experiments.from_file(file).asked is not None


def test_files_in_a_question_are_as_the_schema_says(saved, tmp_path):
    """Their names and texts."""
    for name, text in {
        "load.sql": "INSERT INTO t VALUES (1);",
        "schema.sql": "CREATE TABLE t (a INT);",
        "my.cnf": "[mysqld]\nsync_binlog=1\n",
    }.items():
        (tmp_path / name).write_text(text)
    given = [f"--{option}={tmp_path / file}" for option, file in (("workload", "load.sql"), ("schema", "schema.sql"))]
    file = saved("semisync", "--vary", "clients=1,4", *given, "--cnf", f"replica={tmp_path / 'my.cnf'}")

    assert wrong(file.read_text()) == []


@pytest.mark.parametrize("inside", [True, False])
def test_the_first_line_leads_an_editor_to_the_schema(saved, tmp_path, monkeypatch, inside):
    """Relative within the checkout, by its whole path elsewhere."""
    if inside:
        monkeypatch.setattr(catalogue, "ROOT", tmp_path)
        (tmp_path / "docs").mkdir()
    first = saved("semisync", "--vary", "clients=1,4").read_text().splitlines()[0]
    path = first.removeprefix("# yaml-language-server: $schema=")

    assert path != first
    assert path == ("docs/question.schema.json" if inside else str(DOCUMENT))
    assert inside or Path(path).is_file()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("topologies: [semisync]\nvary: {sync_binlog: [0, 1]}", ".vary.sync_binlog[0]: no string"),
        ("topologies: [semisync]\nvari: {}", ".vari: unknown"),
        ("topologies: []", ".topologies: too few"),
        ("vary: {clients: ['1']}", ": no topologies"),
        ("topologies: [semisync]\nvary: {clients: ['x']}", ".vary.clients[0]: not as"),
        ("topologies: [semisync]\nvary: {replication: [semi]}", ".vary.replication[0]: not one of"),
        ("topologies: [semisync]\nsettings: {'Sync Binlog': '1'}", ".settings.Sync Binlog: unknown"),
        ("topologies: [semisync]\nsettings: {engine: mariadb}", ".settings.engine: unknown"),
        ("topologies: [semisync]\nrounds: 2", ".rounds: out of range"),
        ("topologies: [semisync]\nworkload: oltp_x", ".workload: not one of"),
        ("topologies: [single]\nvary: {server.storage: [raid5]}\n", "not as"),
        ("topologies: [single]\nvary: {server.disk: [ssd, 7]}\n", "no string"),
    ],
)
def test_what_cannot_be_is_marked(text, said):
    """What `lab run` would refuse, an editor marks before."""
    assert any(said in each for each in wrong(text))
