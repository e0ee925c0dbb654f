"""Does every listing survive what goes away, or is only half made, between two requests to the engine?"""

import pytest
from replication_lab.attach import attach, override
from replication_lab.lab import doctor
from replication_lab.lab import down as removal
from replication_lab.world import lab_files
from replication_lab.world.docker import attachments, compose_call, labels, leftovers, project
from replication_lab.world.docker import engine as docker_engine

from tests.fakes.docker_engine import Holding, Thing
from tests.fakes.owners import dead, mark
from tests.unit.attached_projects import attachment

REQUESTS = 40
KINDS = ("container", "network", "volume")
COMMANDS = {
    "sweep": leftovers.sweep,
    "left behind": leftovers.left_behind,
    "listed": lambda: [lab.is_in_use() for lab in project.all_labs().values()],
    "doctor": lambda: list(doctor._labs()),
    "dry run": lambda: removal.removable(with_images=False),
    "clean": lambda: removal.clean(with_images=False, tell=lambda _line: None),
    "down": lambda: removal.down("lab-a", lambda _line: None),
}


@pytest.fixture
def engine(monkeypatch, tmp_path):
    """Put things into a fake engine; after `requests` requests all but those of lab-a are gone."""

    def holds(things, requests=0):
        asked = []

        def between():
            asked.append(1)
            for thing in things if len(asked) == requests else ():
                thing.removed = thing.removed or not thing.name.startswith("lab-a")

        monkeypatch.setattr(docker_engine, "client", lambda: Holding(things, between=between))

    monkeypatch.setattr(lab_files, "FOLDER", tmp_path)
    monkeypatch.setattr(compose_call, "wait_for_others", lambda _path: None)
    monkeypatch.setattr(removal.array, "left_in_dev", lambda _kept: [])
    monkeypatch.setattr(removal.array, "sweep", lambda _kept: [])
    monkeypatch.setattr(removal.revisions, "unused", lambda _in_use: [])
    return holds


def attached(project_, owner):
    """Return the Toxiproxy of an attached project, and keep its file."""
    plan = attachment(consumers=[])
    override.write(plan, owner, attachments.KeptAttachment(), {})
    (lab_files.FOLDER / f"{project_}.json").write_text("{}")
    given = {attachments.LABEL: project_, attachments.OWNER: owner, labels.HASH: "1"}
    return Thing(project_, None, "lab-toxiproxy", labels=given)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_project_that_goes_away_meanwhile_ends_no_command(engine, command):
    """An attached project, a leftover, and a lab of another command: gone after each of the requests in turn."""
    for requests in range(1, REQUESTS):
        mine = [Thing("lab-a", dead(), kind=kind) for kind in KINDS]
        others = [Thing("lab-b", mark(), kind=kind) for kind in KINDS] + [
            Thing("lab-c", dead(), kind=kind) for kind in KINDS
        ]
        (lab_files.FOLDER / "lab-a.json").write_text("{}")
        engine([*mine, *others, attached("shop", mark())], requests)
        COMMANDS[command]()

        assert all(each.removed for each in mine) == (command in ("down", "clean")), requests


@pytest.mark.parametrize("command", COMMANDS)
def test_a_half_made_thing_ends_no_command(engine, command):
    """The engine may list a network or a volume without labels, and a container without a state or an environment."""
    half = [Thing("lab-b", dead(), kind=kind) for kind in KINDS[1:]]
    half[0].attrs, half[1].attrs = {}, {"Labels": None}
    bare = Thing("lab-c", mark())
    bare.attrs = {"Config": {}, "State": {}}
    (lab_files.FOLDER / "lab-a.json").write_text("{}")
    engine([*half, bare, Thing("lab-a", dead())])
    COMMANDS[command]()

    assert not any(each.removed for each in [*half, bare])


def test_an_attached_project_that_goes_away_is_not_detached(engine, refused):
    """Its name is then that of no attached project."""
    engine([attached("shop", dead())], 1)
    lab_files.remove("shop")

    assert refused(attach.find_attached, "shop").found
