"""Is a project restored before the lab's Toxiproxies go, and is nothing else of it touched, whatever comes between?"""

from types import SimpleNamespace

import pytest
from replication_lab.attach import attach, override
from replication_lab.model.core.errors import LabError
from replication_lab.world import lab_files, owners
from replication_lab.world.docker import attachments, compose_call, leftovers
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker.attachments import KeptAttachment

from tests.fakes.docker_engine import Holding
from tests.unit.attached_projects import attachment


@pytest.fixture
def shop(monkeypatch, tmp_path):
    """Return an attached shop; `done` lists what is done to it, in order."""
    monkeypatch.setattr(lab_files, "FOLDER", tmp_path)
    attached = attachment()
    found = SimpleNamespace(attached=attached, done=[], fails=False, containers={"app": [1, 2], "db": [1]}, told={})

    def up(_call, counts, _override=None, environment=None):
        if found.fails:
            raise LabError("the files are gone", "files")
        found.done.append(f"recreated {dict(counts)}")
        found.told["environment"] = environment

    monkeypatch.setattr(docker_engine, "client", lambda: Holding([]))
    monkeypatch.setattr(compose_call, "wait_for_others", lambda _path: None)
    monkeypatch.setattr(compose_call, "containers", lambda _project: found.containers)
    monkeypatch.setattr(compose_call, "up", up)
    monkeypatch.setattr(attachments, "remove_added", lambda project: found.done.append(f"removed from {project}"))
    override.write(attached, "1-2", KeptAttachment({"TAG": "7", "UNSET": None}, {"db": ("root", "secret")}), {})
    return found


def test_consumers_are_recreated_before_their_toxiproxies_are_removed(shop, tmp_path):
    """Without the Toxiproxy an application would not reach its server; nothing is left in the folder."""
    attachments.restore("shop")

    assert shop.done == ["recreated {'app': 2}", "removed from shop"]
    assert shop.told["environment"] == {"TAG": "7", "UNSET": None}
    assert list(tmp_path.iterdir()) == []


def test_if_the_files_are_gone_the_toxiproxies_stay(shop, tmp_path):
    """The error says that the project runs through the lab, and the next attempt finds what was kept."""
    shop.fails = True
    with pytest.raises(LabError) as caught:
        attachments.restore("shop")

    assert "cannot be recreated without the lab: the files are gone" in caught.value.found
    assert "until then it still uses the lab" in caught.value.next_step and shop.done == []
    assert {path.name for path in tmp_path.iterdir()} == {"shop.attached", "shop.override.yaml"}


def test_a_service_that_the_user_removed_is_not_created_again(shop):
    """`docker compose down` of the user's own comes first."""
    shop.containers = {"db": [1]}
    attachments.restore("shop")

    assert shop.done == ["removed from shop"]


def test_what_is_kept_is_for_its_owner_only(shop, tmp_path):
    """It has passwords; the override file has none."""
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    assert "secret" not in (tmp_path / "shop.override.yaml").read_text()
    assert attachments.accounts("shop")["db"].user == "root"


@pytest.mark.parametrize(
    ("alive", "finished", "left"), [(True, False, False), (False, True, False), (False, False, True)]
)
def test_an_attachment_is_left_behind_if_its_command_ended_before_its_end(
    shop, monkeypatch, tmp_path, alive, finished, left
):
    """One that came to its end stays attached until `lab detach`."""
    monkeypatch.setattr(owners, "is_dead", lambda _mark: not alive)
    monkeypatch.setattr(attachments, "containers", lambda: {"shop": ["a proxy"]})
    if finished:
        (tmp_path / "shop.json").write_text("{}")

    assert leftovers.left_behind() == (["the attachment of shop"] if left else [])


def test_a_project_whose_toxiproxies_were_removed_by_others_is_left_behind(shop, monkeypatch, tmp_path):
    """Its application has lost its server; what was kept is enough to restore it."""
    monkeypatch.setattr(owners, "is_dead", lambda _mark: True)
    monkeypatch.setattr(attachments, "containers", dict)

    assert leftovers.left_behind() == ["the attachment of shop"]


@pytest.mark.parametrize("name", ["shop", None])
def test_a_project_whose_toxiproxies_were_removed_by_others_is_detached(shop, monkeypatch, tmp_path, name):
    """By its name, or as the only one; nothing is asked of its servers, which the lab does not reach."""
    monkeypatch.setattr(owners, "is_dead", lambda _mark: True)
    monkeypatch.setattr(attachments, "containers", dict)
    monkeypatch.setattr(attach.docker_engine, "client", lambda: None)
    monkeypatch.setattr(attachments, "differences", lambda _attached: [])
    monkeypatch.setattr(attachments, "unnamed_of", lambda _attached, _consumer: ["a1b2"])
    told = []
    done = attach.detach(name, told.append)

    assert told == ["recreating app"] and shop.done == ["recreated {'app': 2}", "removed from shop"]
    assert done == attach.Detached("shop", [], [("app", "a1b2")])


def test_another_commands_attachment_that_has_begun_is_left_alone(shop, monkeypatch, tmp_path):
    """Its containers do not exist yet."""
    monkeypatch.setattr(owners, "is_dead", lambda mark: mark != "1-2")
    monkeypatch.setattr(attachments, "containers", dict)

    assert leftovers.left_behind() == []
