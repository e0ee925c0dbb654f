"""Are the files of a lab in one Docker engine left alone by every command that uses another engine?"""

import msgspec
import pytest
from msgspec import structs
from replication_lab.attach import attach, override
from replication_lab.lab import down as removal
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.world import catalogue, files, lab_files
from replication_lab.world.docker import attachments, leftovers, machine, project
from replication_lab.world.docker import engine as docker_engine

from tests.fakes.docker_engine import Holding, Thing
from tests.fakes.owners import dead
from tests.unit.attached_projects import attachment

ASKED = LabRequest(catalogue.topology("async"), "mariadb", "lab-x")
PROXY = {attachments.LABEL: "shop", attachments.OWNER: "1-2", "com.docker.compose.config-hash": "1"}


@pytest.fixture
def use(monkeypatch, tmp_path):
    """Use an engine by its ID, which has these things: `use("B", things)`; return what is restored from then on."""
    monkeypatch.setattr(lab_files, "FOLDER", tmp_path / "labs")
    (tmp_path / "labs").mkdir()
    for what in ("left_in_dev", "sweep"):
        monkeypatch.setattr(removal.array, what, lambda _kept: [])
    monkeypatch.setattr(removal.revisions, "unused", lambda _in_use: [])
    here = machine.facts()

    def with_id(engine_id, *things):
        restored = []
        monkeypatch.setattr(machine, "facts", lambda: structs.replace(here, engine_id=engine_id))
        monkeypatch.setattr(docker_engine, "client", lambda: Holding(things))
        monkeypatch.setattr(docker_engine, "ensure", lambda: None)
        monkeypatch.setattr(attachments, "_restore", lambda attached, _: restored.append(attached.compose.project))
        return restored

    return with_id


def kept_lab(engine_id, finished=True):
    """Write the files of a lab whose `lab up` has ended."""
    given = f"{lab_files.ENGINE_ID}={engine_id}\n" if engine_id else ""
    files.write_whole(lab_files.file_of("lab-x", ".env"), f"LAB_OWNER={dead()}\n{given}".encode())
    if finished:
        files.write_whole(lab_files.file_of("lab-x", ".json"), b"{}")


def kept_attachment(finished=True):
    """Write the files of an attachment whose `lab attach` has ended, in the engine that is used."""
    override.write(attachment(), dead(), attachments.KeptAttachment(), {})
    if finished:
        files.write_whole(lab_files.file_of("shop", ".json"), b"{}")


def names():
    return sorted(path.name for path in lab_files.FOLDER.iterdir())


COMMANDS = {
    "sweep": leftovers.sweep,
    "clean": lambda: removal.clean(False, lambda _line: None),
    "down": lambda: removal.down("lab-x", lambda _line: None),
    "down of the only one": lambda: removal.down(None, lambda _line: None),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("there", [[], ["lab-x"]])
def test_no_command_at_another_engine_deletes_the_files_of_a_kept_lab(use, command, there):
    """Also one that removes a lab of the same name there; back at the first engine the lab is kept and runs."""
    kept_lab("A")
    use("B", *(Thing(name, dead()) for name in there))
    try:
        COMMANDS[command]()
    except LabError as error:
        assert error.found.startswith("no lab 'lab-x' is running; its files are about a lab in another Docker engine")
    assert names() == ["lab-x.env", "lab-x.json"]

    thing = Thing("lab-x", dead())
    use("A", thing)
    assert leftovers.sweep() == [] and not thing.removed and project.find("lab-x").is_idle()


@pytest.mark.parametrize(
    ("engine_id", "finished", "stays"),
    [
        ("A", True, False),
        ("A", False, False),
        ("B", True, True),
        ("B", False, True),
        ("", True, True),
        ("", False, False),
    ],
)
def test_files_are_an_orphans_only_if_the_lab_was_in_this_engine(use, engine_id, finished, stays):
    """A file of an earlier version names no engine: then a lab that came up completely may be in another one."""
    kept_lab(engine_id, finished)
    use("A")
    leftovers.sweep()

    assert bool(names()) == stays


@pytest.mark.parametrize("finished", [True, False])
def test_an_attachment_in_another_engine_is_neither_restored_nor_forgotten(use, refused, finished):
    """A project of that name there is somebody else's; back at the first engine it can be detached."""
    use("A")
    kept_attachment(finished)
    before = names()
    restored = use("B", Thing("shop", None, "lab-toxiproxy", labels=PROXY))

    assert leftovers.left_behind() == [] and leftovers.sweep() == [] and project.all_labs() == {}
    assert "another Docker engine" in refused(attach.detach, "shop", lambda _line: None).found
    assert refused(attach.detach, None, lambda _line: None)
    assert restored == [] and names() == before
    restored = use("A")
    assert leftovers.sweep() == ["the attachment of shop"] and restored == ["shop"]


def test_an_attachment_of_an_earlier_version_may_be_in_another_engine(use):
    """It came to its end, and its containers are not here: only `lab detach` with its name restores it."""
    use("A")
    kept_attachment()
    file = lab_files.file_of("shop", lab_files.ATTACHED)
    kept = structs.replace(msgspec.json.decode(file.read_bytes(), type=attachments.KeptAttachment), engine_id="")
    files.write_whole(file, msgspec.json.encode(kept))
    restored = use("B")

    assert leftovers.sweep() == [] and restored == [] and attach._without_containers("shop")


@pytest.mark.parametrize("there", [[], [Thing("lab-x", dead(folder="/another"))]])
def test_up_and_attach_refuse_a_name_that_has_files_of_another_engine(use, refused, monkeypatch, there):
    """They would overwrite what the other engine's lab needs; nothing starts."""
    monkeypatch.setattr(attach.images, "ensure", lambda _names: None)
    use("A")
    kept_lab("A")
    kept_attachment()
    before = {path: path.read_bytes() for path in lab_files.FOLDER.iterdir()}
    # A lab that another checkout has started there.
    use("B", *there)
    plan = attach.AttachPlan(attachment(), {}, attachments.KeptAttachment(), [])

    for act in (
        lambda: up.up(ASKED, lambda _line: None),
        lambda: attach.attach(plan, "none", lambda _line: None),
    ):
        error = refused(act)
        assert "in another Docker engine" in error.found and "rm " in error.next_step
    assert {path: path.read_bytes() for path in lab_files.FOLDER.iterdir()} == before


# --- what cannot be handled -------------------------------------------------------------------------------------------


def test_a_leftover_that_cannot_be_handled_stops_no_command(use, monkeypatch):
    """Neither a killed attachment without Compose files, nor a volume in use; each is told, the rest is done."""
    stuck, other, named = (Thing(name, dead()) for name in ("lab-a", "lab-b", "lab-x"))
    use("A", stuck, other, named)
    kept_attachment(finished=False)
    files.write_whole(lab_files.file_of("lab-x", ".json"), b"{}")
    whole, told = leftovers.remove, []

    def fail(*_):
        raise LabError("its Compose file is gone", "files")

    monkeypatch.setattr(attachments, "_restore", fail)
    monkeypatch.setattr(leftovers, "remove", lambda name, *more: fail() if name == "lab-a" else whole(name, *more))
    assert removal.down("lab-x", told.append) == ["lab-x"]

    assert (stuck.removed, other.removed, named.removed) == (False, True, True) and attachments.kept("shop")
    warnings = [line for line in told if line.startswith("warning: ")]
    assert len(warnings) == 2 and "lab-a" in warnings[0] and "shop is still there: its Compose" in warnings[1]
    assert "removed lab-b: leftover of a killed command" in told
