"""Is a removal that is going on waited for, and one that the engine refuses a single error?"""

import time
from types import SimpleNamespace

import pytest
from docker.errors import APIError, DockerException, NotFound
from replication_lab.world import lab_files
from replication_lab.world.docker import attachments, leftovers, removal
from replication_lab.world.docker import engine as docker_engine

from tests.fakes.docker_engine import Holding, Thing
from tests.fakes.owners import dead


@pytest.fixture
def a_container():
    return SimpleNamespace(name="p-source-1", labels={})


IN_PROGRESS = "removal of container p is already in progress"


@pytest.mark.parametrize(
    "refusals", [[IN_PROGRESS, IN_PROGRESS], ['500: cannot remove container "p": did not receive an exit event']]
)
def test_a_removal_that_is_going_on_is_waited_for(a_container, monkeypatch, refusals):
    """Two commands may remove the same lab at once, and a busy engine answers with an error before it succeeds."""
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    left = list(refusals)

    def remove(**_options):
        raise APIError(left.pop(0)) if left else NotFound("gone")

    a_container.remove = remove
    removal.remove_container(a_container)

    assert left == []


@pytest.mark.parametrize("error", [APIError("driver failed"), DockerException("no connection"), APIError(IN_PROGRESS)])
def test_a_removal_that_fails_is_one_error_with_the_engines_words(a_container, monkeypatch, refused, error):
    """Sabotage: the engine refuses for good, does not answer, or never ends a removal."""
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(removal, "REMOVAL_SECONDS", 0.01)

    def remove(**_options):
        raise error

    a_container.remove = remove
    said = refused(removal.remove_container, a_container)

    assert str(error) in said.found and "p-source-1" in said.found and "./lab doctor" in said.next_step


def test_what_the_lab_added_to_a_project_is_waited_for_too(a_container, monkeypatch):
    """Its files are deleted afterwards, so it must be gone by then."""
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(attachments, "containers", lambda: {"shop": [a_container]})
    monkeypatch.setattr(attachments.engine, "client", lambda: Holding([]))
    left = [IN_PROGRESS, IN_PROGRESS]

    def remove(**_options):
        raise APIError(left.pop(0)) if left else NotFound("gone")

    a_container.remove = remove
    attachments.remove_added("shop")

    assert left == []


def test_a_container_that_comes_while_a_lab_is_removed_is_removed_too(monkeypatch, tmp_path):
    """The engine goes on to create what an interrupted `docker compose` had asked for."""
    things = [Thing("lab-x", dead())]
    late = Thing("lab-x", dead(), "replica")

    def between():
        if things[0].removed and late not in things:
            things.append(late)

    monkeypatch.setattr(lab_files, "FOLDER", tmp_path)
    monkeypatch.setattr(docker_engine, "client", lambda: Holding(things, between=between))
    first_remove = things[0].remove
    things[0].remove = lambda **options: (first_remove(**options), between())
    leftovers.remove("lab-x")

    assert late in things and late.removed


def test_a_volume_that_the_engine_has_taken_for_a_new_container_is_removed_after_it(monkeypatch, tmp_path):
    """As after an interrupted `docker compose`: the container is listed only when the volume was refused."""
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(lab_files, "FOLDER", tmp_path)
    things, tries = [Thing("lab-x", dead()), Thing("lab-x", dead(), "data", kind="volume")], []
    late = Thing("lab-x", dead(), "replica")
    monkeypatch.setattr(docker_engine, "client", lambda: Holding(things))

    def remove_volume(volume):
        tries.append(volume)
        if late not in things:
            things.append(late)
        if not late.removed:
            raise removal.InUse("in use", "not in use", "docker ps")
        volume.remove(force=True)

    monkeypatch.setattr(removal, "remove_volume", remove_volume)
    leftovers.remove("lab-x")

    assert late.removed and len(tries) > 1


@pytest.mark.parametrize("kind", ["network", "volume"])
def test_a_network_or_volume_that_comes_while_a_lab_is_removed_is_removed_too(monkeypatch, tmp_path, kind):
    """It is looked for until there is nothing left, not once."""
    last = Thing("lab-x", dead(), "data", kind="volume")
    things, late = [Thing("lab-x", dead()), last], Thing("lab-x", dead(), "late", kind=kind)
    monkeypatch.setattr(lab_files, "FOLDER", tmp_path)
    monkeypatch.setattr(docker_engine, "client", lambda: Holding(things))
    remove_last = last.remove
    last.remove = lambda **options: (remove_last(**options), things.append(late))
    leftovers.remove("lab-x")

    assert late.removed
