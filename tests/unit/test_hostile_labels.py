"""Are labels taken for names only: does none of them delete a file, open one, run Compose or end a command?"""

import json

import pytest
from replication_lab.attach import attach
from replication_lab.lab import doctor
from replication_lab.lab import down as removal
from replication_lab.world import lab_files
from replication_lab.world.docker import compose_call, leftovers, project
from replication_lab.world.docker import engine as docker_engine

from tests.fakes.docker_engine import Holding, Thing
from tests.fakes.owners import dead

ATTACHMENT, ATTACHED_BY, PROJECT = (
    "replication-lab.attachment",
    "replication-lab.attached-by",
    "com.docker.compose.project",
)
# The owner in the labels of an earlier version.
OLD = "999999999-1.00"


@pytest.fixture
def foreign(tmp_path):
    """Return a folder with files that belong to nobody's lab."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    for name in ("x.json", "a.conf", "shop.attached", "notes.txt"):
        (folder / name).write_text("foreign")
    return folder


@pytest.fixture
def engine(monkeypatch, tmp_path):
    """Put things into a fake engine; Compose must not run, and this checkout has a state folder of its own."""

    def holds(*things, **more):
        found = Holding(things, **more)
        monkeypatch.setattr(docker_engine, "client", lambda: found)
        return found

    def ran(*arguments, **_options):
        raise AssertionError(f"docker compose was run: {arguments}")

    monkeypatch.setattr(compose_call, "run", ran)
    monkeypatch.setattr(compose_call, "wait_for_others", lambda _path: None)
    monkeypatch.setattr(lab_files, "FOLDER", tmp_path / "labs")
    (tmp_path / "labs").mkdir()
    monkeypatch.setattr(removal.array, "left_in_dev", lambda _kept: [])
    monkeypatch.setattr(removal.array, "sweep", lambda _kept: [])
    monkeypatch.setattr(removal.revisions, "unused", lambda _in_use: [])
    return holds


def attachment(state, project="*", consumers=()):
    """Return an attachment as the labels of an earlier version had it."""
    return json.dumps(
        {
            "compose": {"project": project, "files": ["/evil/compose.yaml"], "directory": "/evil"},
            "links": [],
            "consumers": list(consumers),
            "nodes": {},
            "ports": {},
            "images": {},
            "doors": [],
            "state": str(state),
        }
    )


def evil(**labels):
    """Return a container with labels of an image's choice."""
    return Thing("shop", None, "app", labels={ATTACHED_BY: OLD, **labels})


HOSTILE = {
    "a pattern for a project": lambda folder: {ATTACHMENT: attachment(folder), PROJECT: "*"},
    "a project that leads elsewhere": lambda folder: {ATTACHMENT: attachment(folder, "../x"), PROJECT: "../x"},
    "a folder of others": lambda folder: {ATTACHMENT: attachment(folder, "shop")},
    "a consumer with a file of its own": lambda folder: {
        ATTACHMENT: attachment(folder, "shop", [{"service": "app", "count": 1, "config_hash": "x"}])
    },
    "no project": lambda folder: {ATTACHMENT: attachment(folder), PROJECT: None},
    "no owner": lambda folder: {ATTACHMENT: attachment(folder), ATTACHED_BY: None},
    "an empty label": lambda _folder: {ATTACHMENT: ""},
    "rubbish": lambda _folder: {ATTACHMENT: '{"compose": ['},
    "a megabyte": lambda _folder: {ATTACHMENT: "x" * (1 << 20), ATTACHED_BY: "1" * (1 << 20), PROJECT: "y" * (1 << 20)},
    "wrong types": lambda _folder: {ATTACHMENT: '{"compose": 7, "state": []}'},
    "a lab without a project": lambda _folder: {"replication-lab": OLD, PROJECT: None},
    "a lab with a pattern": lambda _folder: {"replication-lab": OLD, PROJECT: "*"},
    "a lab with no service": lambda _folder: {
        "replication-lab": OLD,
        PROJECT: "lab-x",
        "com.docker.compose.service": None,
        "replication-lab.engine": "mariadb",
    },
    "a lab with no file": lambda _folder: {
        "replication-lab": "compose",
        PROJECT: "lab-x",
        "com.docker.compose.project.config_files": None,
        "replication-lab.engine": "mariadb",
    },
    "an owner with a folder": lambda folder: {"replication-lab": f"{OLD}@{folder}/..%00", PROJECT: "lab-x"},
    "an unknown engine": lambda _folder: {
        "replication-lab": "compose",
        PROJECT: "lab-x",
        "com.docker.compose.service": "source",
        "replication-lab.engine": "../../etc",
    },
}


COMMANDS = {
    "sweep": leftovers.sweep,
    "left behind": leftovers.left_behind,
    "listed": project.all_labs,
    "doctor": lambda: list(doctor._labs()),
    "dry run": lambda: removal.removable(with_images=False),
    "clean": lambda: removal.clean(with_images=False, tell=lambda _line: None),
    "down": lambda: removal.down(None, lambda _line: None),
}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("by", ["its image", "docker create"])
def test_a_hostile_label_touches_nothing(engine, foreign, what, command, by):
    """Foreign files and the container stay, Compose does not run, and no command ends with an error of its own."""
    container = evil(**HOSTILE[what](foreign))
    engine(container, images={"sha256:lab": dict(container.labels)} if by == "its image" else {})
    COMMANDS[command]()

    assert not container.removed
    assert sorted(path.name for path in foreign.iterdir()) == ["a.conf", "notes.txt", "shop.attached", "x.json"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_container_whose_image_brings_the_labels_of_a_dead_lab_is_never_removed(engine, command):
    """All labels are as the lab writes them, but they are those of the image: the container is somebody else's."""
    container = Thing("lab-x", dead())
    engine(container, images={"sha256:lab": dict(container.labels)})
    COMMANDS[command]()

    assert not container.removed


def test_a_lab_whose_image_has_labels_of_its_own_is_still_a_lab(engine):
    """Compose overrides an image's label: then it is the lab's."""
    container = Thing("lab-x", dead())
    engine(container, images={"sha256:lab": {"replication-lab": "compose"}, "sha256:other": None})

    assert leftovers.sweep() == ["lab-x"] and container.removed


def test_what_is_unknown_is_shown(engine):
    """By the name of the container, which the engine has checked; nothing of the label is printed."""
    engine(evil(**{ATTACHMENT: "x" * (1 << 20), PROJECT: None}), Thing("lab-y", OLD))
    said = {finding.what: finding.found for finding in doctor._labs()}

    assert said["unknown, with the lab's label"].startswith("shop-app-1: ")
    assert said["other labs"].startswith("lab-y (owner unknown, or of an older version)")


@pytest.mark.parametrize("tag", ["foreign:1-amd64", "foreign:-x"])
def test_an_image_of_others_with_a_label_of_the_labs_is_not_removed(engine, tag):
    """`lab clean --images` removes what the lab built or pulled: its recipe is a digest, and in the tag."""
    found = engine()
    found.images = lambda: [{"RepoTags": [tag], "Labels": {"replication-lab.recipe": tag[8:].partition("-")[0]}}]

    assert removal.images.all_tags() == []


def test_a_project_that_another_checkout_attached_is_shown_and_restored_there(engine, refused):
    """Without its file nothing is known of it but its name; the error says what can be done by hand."""
    engine(Thing("shop", None, "lab-toxiproxy", labels={ATTACHMENT: "shop", ATTACHED_BY: dead(folder="/x")}))
    error = refused(attach.find_attached, "shop")

    assert "shop was attached from another checkout or by another user" in error.found
    assert "docker compose up --detach --force-recreate" in error.next_step
    assert "shop was attached from another checkout" in refused(project.find, "shop").found
    assert project.others() == {"shop": "attached from another checkout, and restored by `lab detach` there"}
    assert leftovers.sweep() == [] and project.all_labs() == {}
