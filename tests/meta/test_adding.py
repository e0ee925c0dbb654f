"""Does docs/adding.md build what it says? Its blocks are loaded, and its tests run, as if they were in the project."""

import importlib.util
import inspect
import re
import shlex
import subprocess
import sys

import msgspec
import pytest
from replication_lab import experiments, faults, workloads
from replication_lab import probes as readings
from replication_lab.faults.fault import FAULTS
from replication_lab.model.lab.topology import parse_topology
from replication_lab.model.lab.toxic import parse_toxic
from replication_lab.runner import drill_set
from replication_lab.world import catalogue

from tests.pages.blocks import blocks, write

PAGE = catalogue.ROOT / "docs" / "adding.md"
BLOCKS = blocks(PAGE)
FILES = {block.title: block.text for block in BLOCKS if block.title}
PACKAGE = "harness/replication_lab/"
TESTS = [
    (title, name, row)
    for title, text in FILES.items()
    for name, row in re.findall(r"^def (test_\w+)\((.*)\):", text, re.M)
]


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Add the page's files to the project's packages, for one test; return the folder that has them."""
    known = dict(FAULTS)
    write(BLOCKS, tmp_path)
    for package in (experiments, faults, readings, workloads):
        folder = tmp_path / PACKAGE / package.__name__.rpartition(".")[2]
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    monkeypatch.setattr(experiments, "FOLDER", tmp_path / PACKAGE / "experiments")
    yield tmp_path
    FAULTS.clear()
    FAULTS.update(known)
    for title in FILES:
        sys.modules.pop(title.removeprefix("harness/").removesuffix(".py").replace("/", "."), None)


def module(path):
    """Import a file of Python's that is in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_each_kind_of_thing_has_its_file():
    """A toxic, a workload, a probe, a fault, a drill, an experiment, and the tests of two; none replaces one."""
    kinds = {title.removeprefix(PACKAGE).partition("/")[0] for title in FILES}

    assert kinds == {"toxics", "workloads", "probes", "faults", "read-only.yaml", "experiments", "tests"}
    assert [title for title in FILES if (catalogue.ROOT / title).exists()] == []


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


def test_the_drill_is_of_the_fault_that_the_page_makes(built):
    """The fault registers itself; the drill names it."""
    importlib.import_module("replication_lab.faults.read_only")
    settings = msgspec.yaml.decode(FILES["read-only.yaml"])
    topology = catalogue.topology(settings.pop("topology"))

    drill = drill_set.parse("read-only", topology, msgspec.yaml.encode(settings))

    assert [step.fault for step in drill.steps] == ["read-only"]


@pytest.mark.parametrize(("title", "name", "row"), TESTS, ids=[name for _, name, _ in TESTS])
def test_a_test_of_the_page_passes(built, request, title, name, row):
    """With the fixtures that it names, once for each value of its parameter."""
    test = getattr(module(built / title), name)
    marks = [mark.args for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    for given in [{key: value} for key, values in marks for value in values] or [{}]:
        wanted = [each for each in inspect.signature(test).parameters if each not in given]
        test(**given, **{each: request.getfixturevalue(each) for each in wanted})
