"""Are conditions by number typed as names are, and refused before anything starts or changes?"""

import json
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from replication_lab import cli
from replication_lab.cli import link as link_command
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.world import catalogue
from replication_lab.world.docker import engine, project


def typed(*arguments):
    """Type a command; its exit status, output and error."""
    return CliRunner().invoke(cli.cli, arguments, prog_name="lab")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["up", "semisync", "--toxic", "source-replica=40"], "'40': 40 has no unit"),
        (["up", "semisync", "--toxic", "source-replica=40ms", "--toxic", "source-replica=9ms"], "already has 40ms"),
        (["up", "semisync", "--toxic", "source-replica=100Mbit"], "kbit, mbit or gbit for a rate"),
        (["up", "semisync", "--toxic", "replica-source=40ms"], "did you mean source-replica?"),
        (["toxic", "--check", "40ms±1ms"], "a jitter of 1 ms"),
        (["link", "set", "source-replica", "40m"], "unknown unit 'm'"),
        (["link", "set", "source-replica=40ms", "replica-source"], "replica-source has no equals sign"),
        (["link", "set", "source-replica=40ms", "replica-source=40mms"], "unknown unit 'mms'"),
        (["link", "set", "source-replica", "40ms", "50ms"], "50ms after source-replica 40ms"),
    ],
)
def test_a_bad_condition_is_refused_before_docker_is_asked(monkeypatch, arguments, said):
    """With what was found, what was expected, and what to type next."""
    for asked, name in ((engine, "ensure"), (project, "find")):
        monkeypatch.setattr(asked, name, lambda *_: pytest.fail("the engine was touched"))
    error = typed(*arguments).exception

    assert isinstance(error, LabError)
    assert said in str(error) and error.expected


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["source-replica", "40ms±5ms"], {"source-replica": "40ms±5ms"}),
        (["source-replica=40ms", "a-b=none", "b-a=20mbit"], {"source-replica": "40ms", "a-b": "none", "b-a": "20mbit"}),
    ],
)
def test_conditions_are_put_on_links_by_one_command(monkeypatch, arguments, asked):
    """One link, or several in one go; each one's proof is told, and one that fails makes the status 3."""
    put = []
    monkeypatch.setattr(project, "find", lambda name: SimpleNamespace(name=name))

    def set_toxics(lab, toxics):
        put.append((lab.name, toxics))
        return [
            Proof(f"link {link} is {toxic}", f"measured {link}", ok=link != "b-a") for link, toxic in toxics.items()
        ]

    monkeypatch.setattr(up, "set_toxics", set_toxics)
    # In text the console writes to the standard output that it found when it was made.
    text, data = (typed("link", "set", *arguments, "--lab", "x", *more) for more in ([], ["--json"]))
    found = json.loads(data.stdout)

    assert put == [("x", asked)] * 2
    assert isinstance(found, list) == (len(asked) > 1)
    assert [each["what"] for each in (found if isinstance(found, list) else [found])] == [
        f"link {link} is {toxic}" for link, toxic in asked.items()
    ]
    assert text.exit_code == data.exit_code == (3 if "b-a" in asked else 0)


class QuietLink:
    """A link of a lab that can be switched off and on; `stuck` is one that goes on working."""

    def __init__(self, name, stuck=False):
        self.name, self.stuck, self.on = name, stuck, True

    def enable(self):
        self.on = True


class UnprobedCut:
    """The fault, without connections: it proves whether its links are off."""

    def __init__(self, lab, names):
        self.links = [lab.link(name) for name in names]

    def inject(self):
        for link in self.links:
            link.on = link.stuck

    def verify(self):
        found = {True: "an answer", False: "nothing"}
        return [Proof(f"{link.name} is cut", found[link.on], ok=not link.on) for link in self.links]

    def close(self):
        pass


@pytest.mark.parametrize("stuck", [False, True])
def test_a_link_is_cut_verified_and_restored_to_how_it_started(monkeypatch, stuck):
    """With its own condition; a link through which something still gets ends with 3."""
    links = {name: QuietLink(name, stuck) for name in ("a-b", "b-a")}
    lab = SimpleNamespace(name="x", link=links.__getitem__, topology=SimpleNamespace(toxics={"a-b": "wan-85ms"}))
    put = []
    monkeypatch.setattr(project, "find", lambda _name: lab)
    monkeypatch.setattr(link_command, "Cut", UnprobedCut)
    monkeypatch.setattr(link_command, "proofs_of", lambda fault: fault.verify())
    monkeypatch.setattr(up, "set_toxics", lambda _lab, asked: put.append(asked) or [Proof("link", "85 ms", ok=True)])
    cut = typed("link", "cut", "a-b", "b-a", "--lab", "x")
    was_cut = [not each.on for each in links.values()]
    restored = typed("link", "restore", "a-b", "b-a", "--lab", "x")

    assert (cut.exit_code, was_cut) == ((3, [False] * 2) if stuck else (0, [True] * 2))
    assert restored.exit_code == 0 and all(each.on for each in links.values())
    assert put == [{"a-b": "wan-85ms", "b-a": "none"}]


def test_a_condition_is_explained_without_docker():
    """What it does, and that a rate is the link's."""
    assert "10 ms down, 30 ms up" in typed("toxic", "--check", "40ms,down=10ms,up=30ms").stdout
    assert "2500 KB/s in each direction, for all connections together" in typed("toxic", "--check", "20mbit").stdout


@pytest.mark.parametrize(
    ("toxics", "said"),
    [
        ({}, ["lab-semisync is already running; nothing changed"]),
        (
            {"source-replica": "40ms"},
            [
                "lab-semisync is already running; nothing changed",
                "its links keep their conditions; to change them: "
                "./lab link set source-replica=40ms --lab lab-semisync",
            ],
        ),
    ],
)
def test_a_running_lab_keeps_its_conditions_and_that_is_said(monkeypatch, toxics, said):
    """Whoever asks for another condition by `lab up` learns that it is not there, and what puts it there."""
    running = SimpleNamespace(name="lab-semisync", engine="mariadb", containers={}, owners=set())
    monkeypatch.setattr(up.lab_files, "saved_state", lambda _lab: "verified")
    for room, name in ((up.project, "check_state_transfer"), (up.docker_engine, "ensure"), (up, "tidy")):
        monkeypatch.setattr(room, name, lambda *_: None)
    monkeypatch.setattr(up.project, "all_labs", lambda: {"lab-semisync": running})
    told = []
    request = LabRequest(catalogue.topology("semisync"), "mariadb", "lab-semisync", toxics)

    assert up.up(request, told.append) is running
    assert told == said
