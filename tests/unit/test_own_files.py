"""Are a project's own topologies, toxics, drills and experiments found before the lab's, and refused well?"""

import json
import textwrap

import msgspec
import pytest
from replication_lab import experiments, faults
from replication_lab.model.lab.toxic import parse_toxic
from replication_lab.runner import drill_set
from replication_lab.world import catalogue, own
from replication_lab.world.own import line_of

SLOW = """\
{
  "about": "A slow line.",
  "toxics": [
    {"name": "slow-down", "type": "latency", "stream": "downstream", "attributes": {"latency": 15}}
  ]
}
"""
DRILL = """\
about: Nothing happens.
clients: {source: 1}
steps:
  - {fault: cut, targets: [source-replica], seconds: 1}
expected: [{says: no row is lost, figure: lost, equals: 0}]
"""
EXPERIMENT = '''\
"""Does it matter?"""
from replication_lab import Case, Inserts, claim, experiment, p50
from ..workloads.none import NAME

experiment(topology="async", load=Inserts(rows=9), cases=[Case(NAME)], claims=[claim(p50(NAME) <= 99, "it is fast")])
'''
FAULT = """\
from replication_lab import OnNodes, fault

@fault("mine", acts_on="nodes", does="nothing", proof="none")
class Mine(OnNodes):
    def inject(self): ...
    def verify(self): ...
    def verify_recovered(self): ...
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Write a file of a project below lab/; the project is the current folder, and is searched."""
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    own._folder_from.cache_clear()

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        own._folder_from.cache_clear()
        return path

    yield write
    own._folder_from.cache_clear()


def test_a_toxic_of_the_project_is_found_before_the_lab_s(project):
    """Also from a folder within the project."""
    project("lab/toxics/wan-85ms.json", SLOW)
    project("lab/toxics/mine.json", SLOW)

    assert {"wan-85ms", "mine", "wan-200ms"} <= set(catalogue.toxics())
    assert catalogue.toxic("wan-85ms").round_trip_ms == 15
    assert own.origin(catalogue.toxic_file("mine")) == "lab/toxics/mine.json"
    assert own.origin(catalogue.toxic_file("wan-200ms")) == "shipped"


def test_the_project_is_searched_from_its_inner_folders(project, tmp_path, monkeypatch):
    """The nearest pyproject.toml is its top."""
    project("lab/toxics/mine.json", SLOW)
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")

    assert own.folder() == tmp_path / "lab"


def test_another_folder_can_be_named(project, tmp_path):
    """By [tool.replication-lab] path; then lab/ is not read."""
    project("lab/toxics/mine.json", SLOW)
    project("tests/faults/toxics/other.json", SLOW)
    project("pyproject.toml", '[tool.replication-lab]\npath = "tests/faults"\n')

    assert "other" in catalogue.toxics() and "mine" not in catalogue.toxics()


def test_a_file_called_lab_is_no_folder(project):
    """The checkout's launcher has this name."""
    project("lab", "#!/bin/sh\n")

    assert own.folder() is None and catalogue.toxics()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[tool.replication-lab]\npath = "none"\n', "names none, which is not a folder"),
        (
            '[project]\n[tool.replication-lab]\npaht = "x"\n',
            "pyproject.toml:3: unknown key of [tool.replication-lab] 'paht'",
        ),
        ("a = 1\nb = \n", "pyproject.toml:2: no TOML"),
    ],
)
def test_a_bad_name_of_the_folder_is_refused(project, refused, text, said):
    """With the file; a path that does not exist is a mistake, not an empty folder."""
    project("pyproject.toml", text)

    assert said in refused(own.folder).found


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('"latency": 15', '"latency": "x"', 4),
        ('"stream": "downstream", ', "", 4),
        ("latency", "latencx", 4),
        ('"A slow line.",', '"A slow line."', 3),
    ],
)
def test_a_bad_toxic_is_refused_with_file_and_line(project, refused, old, new, line):
    """The line is that of the key or the value."""
    project("lab/toxics/mine.json", SLOW.replace(old, new))

    assert f"lab/toxics/mine.json:{line}" in refused(catalogue.toxic, "mine").found


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("fault: cut", "fault: cutt", 4),
        ("seconds: 1", "seconds: x", 4),
        ("about:", "abuot:", 1),
        ("source-replica", "source-leaf", 4),
        ("equals: 0", "equals: 0, at_most: 3", 5),
    ],
)
def test_a_bad_drill_is_refused_with_file_and_line(project, refused, old, new, line):
    """A drill of the project, for a topology of the lab's."""
    project("lab/drills/async/mine.yaml", DRILL.replace(old, new))

    assert f"lab/drills/async/mine.yaml:{line}" in refused(drill_set.load, "async", "mine").found


def test_a_drill_of_the_project_is_listed_with_those_of_the_topology(project):
    """It can have the name of the lab's, which it then replaces."""
    project("lab/drills/async/mine.yaml", DRILL)
    project("lab/drills/async/cut-link.yaml", DRILL)

    assert {"mine", "kill-replica"} <= set(catalogue.drills("async"))
    assert drill_set.load("async", "cut-link").about == "Nothing happens."


def test_an_experiment_of_the_project_may_import_what_is_beside_it(project):
    """By relative imports: the project's folder is a package."""
    project("lab/workloads/none.py", 'NAME = "mine"')
    project("lab/experiments/mine.py", EXPERIMENT)

    assert "mine" in experiments.names()
    assert (experiments.load("mine").name, experiments.load("mine").question) == ("mine", "Does it matter?")
    assert [case.name for case in experiments.load("mine").cases] == ["mine"]
    assert own.origin(experiments.file_of("mine")) == "lab/experiments/mine.py"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_of_this_name", "mine.py:1: ModuleNotFoundError: "),
        ("x = 1\ny = (", "mine.py:2: SyntaxError: "),
        ("x = 1", "mine.py:1: the file declares no experiment"),
        ("from ..workloads.none import NAME", "lab/workloads/none.py:2: ZeroDivisionError"),
        (EXPERIMENT.replace("..workloads", "..loads"), "mine.py:3: ModuleNotFoundError"),
        (EXPERIMENT.replace('"async"', '"asink"'), "mine.py:5: unknown topology 'asink'"),
        (EXPERIMENT.replace("p50(NAME) <= 99", "p50(NAME)"), "has nothing that can be judged"),
        (EXPERIMENT.replace("p50(NAME) <= 99", "1 <= p50(NAME) <= 99"), "two bounds in a row"),
        (EXPERIMENT.replace("p50(NAME) <= 99", "p50(NAME) <= p50(NAME)"), "a quantity with another quantity"),
        (
            EXPERIMENT.replace("Case(NAME)", 'Case(NAME, links="85mz")'),
            "condition of case mine '85mz': unknown unit 'mz'",
        ),
        (EXPERIMENT.replace("Case(NAME)", 'Case(NAME, links={"a-b": "lan"})'), "'a-b'"),
        (EXPERIMENT.replace("Case(NAME)", 'Case(NAME, settings={"rtt": "9ms"})'), "rtt is not a setting of a case"),
        (EXPERIMENT.replace("Case(NAME)", 'Case(NAME, settings={"clients": 0})'), "clients is '0'"),
        (EXPERIMENT.replace("Case(NAME)", 'Case(NAME, settings={"protocol": "C"})'), "no setting protocol"),
        (EXPERIMENT.replace('"async"', '"single"').replace("(NAME)", '(NAME, links="9ms")', 1), "has no link"),
    ],
)
def test_a_bad_experiment_is_refused_with_file_and_line(project, refused, text, said):
    """The line is in the project's own file, not in the lab's."""
    broken = text.startswith("from ..")
    project("lab/workloads/none.py", "x = 1\ny = 1 / 0" if broken else "NAME = 'mine'")
    project("lab/experiments/mine.py", text)

    assert said in refused(experiments.load, "mine").found


def test_a_fault_of_the_project_is_one_of_the_lab_s(project, tmp_path, monkeypatch):
    """It is found from the project alone: another project, or none, has no such fault."""
    project("lab/faults/mine.py", FAULT)

    assert {"mine", "kill"} <= set(faults.kinds())
    assert type(faults.made(None, "mine", ["source"])).__name__ == "Mine"
    monkeypatch.chdir(tmp_path.parent)
    assert "mine" not in faults.kinds()


def test_a_drill_may_name_a_fault_of_the_project(project):
    """A drill's file is checked against all faults before anything starts."""
    project("lab/faults/mine.py", FAULT)
    project("lab/drills/async/mine.yaml", DRILL.replace("cut, targets: [source-replica]", "mine, targets: [source]"))

    assert [step.fault for step in drill_set.load("async", "mine").steps] == ["mine"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FAULT.replace("inject(self):", "inject(self)"), "lab/faults/mine.py:5: SyntaxError"),
        (FAULT.replace("OnNodes, fault", "fault"), "lab/faults/mine.py:4: NameError"),
        (FAULT.replace('"nodes"', '"node"'), "lab/faults/mine.py:3: the fault mine acts on node"),
        (FAULT.replace("(OnNodes)", ""), "lab/faults/mine.py:3: the fault mine has no method recover"),
        (FAULT.replace('"mine"', '"kill"'), "registers kill, which replication_lab.faults.kill registers"),
    ],
)
def test_a_bad_fault_is_refused_with_file_and_line(project, refused, text, said):
    """By every command that knows faults, before anything starts."""
    project("lab/faults/mine.py", text)

    assert said in refused(faults.kinds).found


def test_a_question_of_the_project_has_a_name_and_may_name_a_workload(project):
    """The workload's text becomes part of the question, and so of the record."""
    project("lab/workloads/orders.sql", "INSERT INTO t VALUES (1);\n")
    project("lab/experiments/cost.yaml", "topologies: [async]\nvary: {sync_binlog: ['0', '1']}\nworkload: orders\n")
    found = experiments.load("cost")

    assert found.asked.workload.name == "orders.sql"
    assert experiments.question_file("cost").name == "cost.yaml"
    assert experiments.question_file("semisync_wan") is None


def test_a_bad_question_is_refused_with_file_and_line(project, refused):
    """The key is named, and its line."""
    project("lab/experiments/cost.yaml", "topologies: [async]\nvary: {sync_binlog: ['0', '1']}\nrounds: many\n")

    assert "lab/experiments/cost.yaml:3: " in refused(experiments.load, "cost").found


def test_a_topology_of_the_project_is_one_of_the_lab_s(project, refused):
    """It extends the lab's services by the variable LAB_COMPOSE."""
    text = catalogue.compose_file("async").read_text().replace("_parts.yaml", '"${LAB_COMPOSE}/_parts.yaml"')
    path = project("lab/topologies/far.yaml", text)

    assert catalogue.topology("far").links == catalogue.topology("async").links
    assert catalogue.default_engine("far") == "mariadb"
    assert catalogue.topology_of(path).name == "far"
    project("lab/topologies/far.yaml", text.replace("replication: async", "replicatoin: async"))
    assert "lab/topologies/far.yaml:" in refused(catalogue.topology, "far").found


def test_a_lab_of_another_project_is_known_by_its_file(project, tmp_path, monkeypatch):
    """From any folder; without the file it is unknown."""
    path = project("lab/topologies/far.yaml", catalogue.compose_file("async").read_text())
    monkeypatch.chdir("/")

    assert "far" not in catalogue.topologies()
    assert catalogue.topology_of(path).name == "far"
    path.unlink()
    assert catalogue.topology_of(path) is None


TEXT = "a: 1\nb:\n  - {c: 2}\n  - d: [3,\n     four]\n"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("Expected `int` - at `$.b[1].d[1]`", 5),
        ("Expected `int` - at `$.b[0].c`", 3),
        ("Object contains unknown field `d` - at `$.b[1]`", 4),
        ("missing required field `z` - at `$.b[1]`", 4),
        ("it is 'four', which is no number", 5),
        ("nothing is named", 1),
    ],
)
def test_the_line_is_that_of_the_path_or_of_the_word(error, line):
    """The last part of the path that exists decides."""
    assert line_of(TEXT, error) == line


def test_a_json_text_that_ends_too_soon_has_the_line_of_its_end():
    """The parser's message counts bytes."""
    text = '{"about": "x",\n"toxics": [}\n'
    with pytest.raises(msgspec.DecodeError) as told:
        msgspec.json.decode(text)

    assert line_of(text, str(told.value)) == 2
    assert json.loads(SLOW) and parse_toxic("x", SLOW)
