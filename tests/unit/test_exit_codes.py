"""Does each kind of command end with the code of the table in docs/commands.md?"""

import re
from types import SimpleNamespace

import pytest
from replication_lab import runs as running
from replication_lab.attach.as_before import NotAsBefore
from replication_lab.cli import attach as attach_command
from replication_lab.cli import compare, disk, node, record
from replication_lab.cli import lab as lab_command
from replication_lab.model.core.errors import LabError, OutcomeUnknown
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.model.core.proof import Proof
from replication_lab.model.core.verdict import worst
from replication_lab.world import catalogue
from replication_lab.world.docker import project

from tests.unit.test_attach_command import PLAN, SEEN, UNSEEN

GOOD, BAD = Proof("what", "found", ok=True), Proof("what", "found", ok=False)
LAB = SimpleNamespace(name="lab-x")


def raising(error):
    def raised(*_, **__):
        raise error

    return raised


@pytest.fixture
def prepared(monkeypatch):
    """Let a command find this instead of a lab, a run or Docker."""
    monkeypatch.setattr(project, "find", lambda _name=None: LAB)

    def prepare(**what):
        """Replace what the commands call, by its name."""
        for place, name in (
            (disk.disks, "check"),
            (lab_command.examination, "examine"),
            (lab_command.labs, "known_toxic"),
            (lab_command.labs, "set_toxics"),
            (node.acting, "act"),
            (node.sql_files, "run_typed"),
            (attach_command.attaching, "attach"),
            (attach_command.attaching, "detach"),
            (running, "judge"),
            (compare, "compare"),
        ):
            if name in what:
                monkeypatch.setattr(place, name, what[name])
        for quiet in ("_digests", "_as_data"):
            monkeypatch.setattr(compare, quiet, lambda _found: {})
        monkeypatch.setattr(record, "print_summary", lambda *_: None)
        monkeypatch.setattr(attach_command, "plan", lambda _asked: PLAN)
        monkeypatch.setattr(attach_command.views, "view", lambda _lab: {})

    return prepare


def ended(code):
    """Return what has this exit code, in place of a judged run or a comparison."""
    return lambda *_: SimpleNamespace(exit_code=code)


CHECK, STOP = ("disk", "check", "replica", "--json"), ("stop", "replica", "--json")
TOXIC, SQL = ("toxic", "a-b", "40ms", "--json"), ("sql", "source", "-e", "DROP TABLE t")
ATTACH, DETACH = ("attach", "--link", "app:db", "--yes", "--json"), ("detach", "--lab", "shop", "--json")
DETACHED = {"project": "shop", "unnamed": []}
REPORT, COMPARE = ("report", "x", "--json"), ("compare", "a", "b", "--json")


@pytest.mark.parametrize(
    ("typed", "what", "code"),
    [
        (REPORT, {"judge": ended(ExitCode.GOOD)}, 0),
        (REPORT, {"judge": ended(ExitCode.FINDING)}, 1),
        (REPORT, {"judge": ended(ExitCode.USAGE)}, 2),
        (REPORT, {"judge": ended(ExitCode.UNKNOWN)}, 3),
        (REPORT, {"judge": raising(LabError("no such run"))}, 2),
        (REPORT, {"judge": raising(RuntimeError("a defect"))}, 2),
        (COMPARE, {"compare": ended(ExitCode.GOOD)}, 0),
        (COMPARE, {"compare": ended(ExitCode.FINDING)}, 1),
        (COMPARE, {"compare": ended(ExitCode.UNKNOWN)}, 3),
        (("compare", "a", "b", "--margin", "x"), {}, 2),
        (CHECK, {"check": lambda *_: [GOOD]}, 0),
        (CHECK, {"check": lambda *_: [GOOD, BAD]}, 1),
        (("doctor", "--json"), {"examine": lambda: [GOOD]}, 0),
        (("doctor", "--json"), {"examine": lambda: [BAD]}, 1),
        (STOP, {"act": lambda *_: [GOOD]}, 0),
        (STOP, {"act": lambda *_: [GOOD, BAD]}, 3),
        (STOP, {"act": raising(LabError("no such node"))}, 2),
        (SQL, {"run_typed": lambda *_: None}, 0),
        (SQL, {"run_typed": raising(LabError("1064"))}, 2),
        (SQL, {"run_typed": raising(OutcomeUnknown("no answer"))}, 3),
        (ATTACH, {"attach": lambda *_: (LAB, [SEEN])}, 0),
        (ATTACH, {"attach": raising(NotAsBefore("replica is not as before"))}, 1),
        (ATTACH, {"attach": lambda *_: (LAB, [UNSEEN])}, 3),
        (DETACH, {"detach": lambda *_: SimpleNamespace(**DETACHED, differences=[], broken=None)}, 0),
        (DETACH, {"detach": lambda *_: SimpleNamespace(**DETACHED, differences=["ports"], broken=None)}, 1),
        (("nonsense",), {}, 2),
        (("run",), {}, 2),
        (("drill", "galera", "--runs", "none"), {}, 2),
        (("unpause", "replica"), {}, 2),
        (("--version",), {}, 0),
    ],
)
def test_a_command_ends_with_the_code_of_its_state(lab, prepared, typed, what, code):
    """0 good, 1 a finding, 2 usage or a failure, 3 unknown."""
    prepared(**what)

    assert lab(*typed)[0] == code


def test_a_whole_has_the_worst_code_of_its_parts():
    """A failure before a finding, a finding before something unknown; nothing at all is unknown."""
    assert [worst(codes) for codes in ([2, 1, 3, 0], [1, 3, 0], [3, 0], [0], [])] == [2, 1, 3, 0, 3]


def test_the_table_of_the_docs_has_these_codes():
    """Each code with its name, in one table."""
    page = (catalogue.ROOT / "docs" / "commands.md").read_text().partition("## Exit codes")[2]
    rows = dict(re.findall(r"^\| (\d) \| ([a-z ,]+) \|", page, re.MULTILINE))

    assert rows == {"0": "good", "1": "a finding", "2": "usage, or a failure", "3": "unknown"}
    assert [*map(str, ExitCode)] == [*rows]
