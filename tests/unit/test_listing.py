"""Does `lab list` show every name that a command takes, as text and as data?"""

import csv
import json

import pytest
from click.testing import CliRunner
from replication_lab import cli, experiments
from replication_lab.cli.listing import KINDS
from replication_lab.world import catalogue, journal
from replication_lab.world.docker import images, servers


def listed(*arguments):
    """Return what `lab list` prints with these arguments."""
    said = CliRunner().invoke(cli.cli, ["list", *arguments], prog_name="lab")
    assert said.exit_code == 0, said.output
    return said.output


@pytest.mark.parametrize(
    ("kind", "key", "names"),
    [
        ("topologies", "topology", catalogue.topologies()),
        ("experiments", "experiment", experiments.names()),
        ("toxics", "toxic", catalogue.toxics()),
        ("disks", "disk", list(catalogue.disks())),
    ],
)
def test_every_name_of_a_kind_is_listed(kind, key, names):
    """Each with a few words on it, also in the table."""
    found = json.loads(listed(kind, "--json"))

    assert [row[key] for row in found] == names
    assert all(all(row.values()) for row in found)
    shown = listed(kind)
    assert all(name in shown for name in names)


def test_a_kind_is_printed_as_a_table_of_csv():
    """A list in a cell is JSON; of every kind at once there is a table for each."""
    head, first, *_ = csv.reader(listed("topologies", "-o", "csv").splitlines())

    assert (head[0], first[0]) == ("topology", catalogue.topologies()[0]) and len(head) == len(first)
    assert len(listed("-o", "csv").split("\n\n")) >= len(KINDS) - 1  # there may be no run
    assert json.loads(listed("toxics", "-o", "json")) == json.loads(listed("toxics", "--json"))


def test_an_engine_is_listed_with_what_it_is_and_what_it_lacks(monkeypatch):
    """As text and as data."""
    monkeypatch.setattr(images, "processor", lambda _image: "")
    monkeypatch.setattr(images, "is_present", lambda _image: False)
    monkeypatch.setattr(images, "state", lambda _name: "not built")
    monkeypatch.setattr(servers, "foreign", lambda _name: "")
    found = json.loads(listed("engines", "--json"))

    assert [row["name"] for row in found] == list(catalogue.engines())
    assert all(row["version"] and row["source"] and row["image"] for row in found)
    shown = listed("engines")
    assert all(name in shown for name in catalogue.engines()) and "no group in " in shown


def test_a_drill_is_listed_with_its_topology():
    """Two topologies may have drills of the same name."""
    found = {(row["topology"], row["drill"]) for row in json.loads(listed("drills", "--json"))}

    assert found == {(topology, drill) for topology in catalogue.topologies() for drill in catalogue.drills(topology)}


def test_a_run_is_listed_with_its_verdict(runs):
    """As its summary.json says; a run that was killed has none."""
    assert listed("runs").strip() == "no rows"
    for name, summary in (("1-a", '{"verdict": "CHANGED", "schema": 1}'), ("2-b", None), ("3-c", "torn")):
        (runs / name).mkdir(parents=True)
        (runs / name / "record.jsonl").write_text("{}\n")
        if summary:
            (runs / name / "summary.json").write_text(summary)

    assert journal.names() == ["1-a", "2-b", "3-c"]
    verdicts = {row["run"]: row["verdict"] for row in json.loads(listed("runs", "--json"))}
    assert verdicts == {"1-a": "CHANGED", "2-b": "not reported", "3-c": "not reported"}


def test_without_a_kind_everything_is_listed(runs):
    """Under the name of each kind."""
    assert list(json.loads(listed("--json"))) == list(KINDS)
    assert set(KINDS) <= {line.strip() for line in listed().splitlines()}
