"""Does docs/adding.md build what it says? Its blocks are copied into a project, and run in the fake world."""

import shlex
import subprocess
from pathlib import Path

import msgspec
import pytest
from replication_lab import LabError, experiments, faults
from replication_lab.model.lab.topology import parse_topology
from replication_lab.model.lab.toxic import parse_toxic
from replication_lab.runner import drill_set
from replication_lab.world import catalogue, own

from tests.pages.blocks import blocks, write

PAGE = catalogue.ROOT / "docs" / "adding.md"
BLOCKS = blocks(PAGE)
FILES = {block.title: block.text for block in BLOCKS if block.title}
EXPERIMENTS = [Path(title).stem for title in FILES if title.startswith("lab/experiments/")]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Write the page's files into a project, which is the current folder."""
    write(BLOCKS, tmp_path)
    monkeypatch.chdir(tmp_path)
    own._folder_from.cache_clear()
    yield tmp_path
    own._folder_from.cache_clear()


def test_each_kind_of_thing_has_its_file():
    """A toxic, a project, a question, two experiments, a load, a probe, a fault and a drill; none replaces one."""
    kinds = [title.rpartition("/")[0] or title for title in FILES]

    assert sorted(set(kinds)) == [
        *("lab/experiments", "lab/faults", "lab/probes", "lab/workloads"),
        *("pyproject.toml", "read-only.yaml", "toxics"),
    ]
    assert [title for title in FILES if title != "pyproject.toml" and (catalogue.ROOT / title).exists()] == []


def test_a_file_of_a_project_imports_only_the_root_package():
    """One line says all that it has of the lab."""
    lines = {title: [line for line in text.splitlines() if "replication_lab" in line] for title, text in FILES.items()}
    python = {title: found for title, found in lines.items() if title.endswith(".py")}

    assert len(python) == 5
    assert [found for found in python.values() if len(found) > 1 or "from replication_lab import" not in found[0]] == []


def test_the_smallest_experiment_is_ten_statements():
    """Its lines without the docstring and blank ones."""
    code = [line for line in FILES["lab/experiments/async_distance.py"].splitlines()[1:] if line]

    assert len(code) <= 10


def test_the_toxic_is_one():
    """As a file of toxics/ is read."""
    text = FILES["toxics/wan-20ms.json"]

    assert parse_toxic("wan-20ms", text.encode()).about.endswith(".")


def test_the_topology_is_the_copy_that_the_page_makes():
    """`sed` changes its name, its toxic, and all that is said of them."""
    made = next(command for block in BLOCKS for command in block.commands if command.startswith("sed "))
    command, file = made.split(" > ")
    text = subprocess.run(shlex.split(command), cwd=catalogue.ROOT, capture_output=True, text=True, check=True).stdout

    assert file == "compose/far.yaml"
    assert parse_topology("far", text).toxics == {"source-replica": "wan-200ms"}
    assert "name: lab-far" in text and "async.yaml" not in text and "85" not in text


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_of_the_page_holds_in_the_fake_world(project, ran, name):
    """An asynchronous commit of the model does not wait for its link; every verdict is one."""
    found = experiments.load(name)
    summary, _, _ = ran(found, preset=next(iter(found.presets)))

    assert [claim.reason for claim in summary.claims if claim.verdict != "HOLDS"] == []


def test_the_probe_of_the_page_is_read_after_each_load(project, ran):
    """Its number is a figure like any other."""
    _, record, _ = ran(experiments.load("missing"))

    assert record.measurements
    assert {measurement.figures["missing_rows"] for measurement in record.measurements} == {0}


# --- the fault --------------------------------------------------------------------------------------------------------


class Server:
    """A lab of one server, which obeys or does not."""

    def __init__(self, obeys=True):
        self.read_only, self.obeys = 0, obeys

    def node(self, _name):
        return self

    server = as_application = lambda self: self

    def set_global(self, read_only):
        self.read_only = read_only if self.obeys else self.read_only

    def value(self, _statement):
        return self.read_only

    def execute(self, _statement):
        if self.read_only:
            raise LabError("running with the --read-only option", "a successful statement")

    def close(self):
        pass


def made(server):
    return faults.made(server, "read-only", ["server"])


def test_the_drill_is_of_the_fault_that_the_page_makes(project):
    """The fault is found in the project's folder; the drill names it."""
    settings = msgspec.yaml.decode(FILES["read-only.yaml"])
    topology = catalogue.topology(settings.pop("topology"))

    drill = drill_set.parse("read-only", topology, msgspec.yaml.encode(settings))

    assert [step.fault for step in drill.steps] == ["read-only"]


def test_writes_are_refused_and_accepted_again(project):
    """The proofs of both are of writes, and not of the variable."""
    fault = made(Server())

    fault.inject()
    assert [proof.found for proof in fault.verify()] == ["refused"]
    fault.recover()
    assert [(proof.found, proof.ok) for proof in fault.verify_recovered()] == [("accepted", True)]


@pytest.mark.parametrize("moment", ["verify", "verify_recovered"])
def test_a_server_that_does_not_obey_is_noticed(project, moment):
    """Sabotage: the statement succeeds and changes nothing."""
    server = Server(obeys=moment == "verify_recovered")
    fault = made(server)

    fault.inject()
    server.obeys = False
    fault.recover()

    assert not all(proof.ok for proof in getattr(fault, moment)())
