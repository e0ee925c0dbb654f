"""Is a lab restored when the view that changed it was killed, and left alone while another view is alive?"""

import msgspec
import pytest
from replication_lab.lab import killed_views
from replication_lab.model.core.errors import LabError
from replication_lab.world import catalogue, clock, files, lab_files, owners
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import leftovers, machine, project

from tests.fakes.lab import FakeLab
from tests.fakes.owners import mark

LINK = "source-replica"


@pytest.fixture
def lab(fake_world, tmp_path, monkeypatch):
    """Return a semi-synchronous lab of the fake world that is up, with its toxic."""
    lab = FakeLab(fake_world(), catalogue.topology("semisync"), "mariadb")
    for body in catalogue.toxic("wan-85ms").bodies:
        lab.link(LINK).add(body)
    monkeypatch.setattr(lab_files, "FOLDER", tmp_path)
    monkeypatch.setattr(project, "all_labs", lambda: {lab.name: lab})
    monkeypatch.setattr(killed_views, "by_node", lambda _lab: {})
    monkeypatch.setattr(docker_engine, "client", lambda: None)
    monkeypatch.setattr(leftovers, "left_behind", list)
    return lab


@pytest.fixture
def killed(lab, monkeypatch):
    """Change a lab in a view, and kill the view."""
    view = killed_views.kept(lab, writes=False)
    view.__enter__()
    [kept] = lab_files.views()
    content = kept.read_bytes()
    for found in lab.link(LINK).toxics():
        lab.link(LINK).remove(found.name)
    lab.link(LINK).cut()
    lab.died["replica"] = "it was stopped"
    view.__exit__(None, None, None)
    files.write_whole(kept, content)
    monkeypatch.setattr(owners, "is_dead", lambda _owner: True)
    return lab


def restored():
    told = []
    killed_views.restore(told.append)
    return told


def test_links_and_nodes_are_as_before_the_view(killed):
    """Each change is told; a second command finds nothing to do."""
    assert restored() == [
        f"restored {killed.name}, which a killed live view had left changed: link {LINK}, node replica (was exited)"
    ]
    assert killed.link(LINK).toxics() == [*catalogue.toxic("wan-85ms").bodies] and killed.link(LINK).enabled()
    assert killed.node("replica").state()[0] == "running"
    assert restored() == [] and lab_files.views() == []


def test_a_view_that_is_alive_keeps_its_lab(killed, monkeypatch):
    """A command beside it must not undo what its viewers do."""
    monkeypatch.setattr(owners, "is_dead", lambda _owner: False)

    assert restored() == [] and len(lab_files.views()) == 1
    assert killed.node("replica").state()[0] == "exited"


def test_a_view_that_ends_leaves_no_file(lab):
    """It restores the lab itself."""
    with killed_views.kept(lab, writes=False):
        assert len(lab_files.views()) == 1

    assert lab_files.views() == []


def test_a_lab_that_is_gone_is_forgotten(killed, monkeypatch):
    """It does not stand in the way of a command."""
    monkeypatch.setattr(project, "all_labs", dict)

    assert restored() == [] and lab_files.views() == []


@pytest.mark.parametrize(("content", "bits"), [(None, 0o644), (b"{", 0o600), (b'{"at": "an earlier version"}', 0o600)])
def test_a_view_whose_file_cannot_be_read_may_still_show_the_lab(killed, monkeypatch, content, bits):
    """It is another user's, such as root's, or an earlier version's: nothing is restored, and the file stays."""
    [first] = lab_files.views()
    other = lab_files.FOLDER / f"{killed.name}.1{lab_files.VIEWED}"
    files.write_whole(other, first.read_bytes() if content is None else content)
    other.chmod(bits)

    assert restored() == [] and killed.node("replica").state()[0] == "exited"
    assert set(lab_files.views()) == {first, other}
    first.unlink()
    assert restored() == [] and lab_files.views() == [other]


def test_a_view_of_a_lab_in_another_engine_is_kept_for_a_command_there(killed, monkeypatch):
    """Here another lab may have that name, or none."""
    here = machine.facts()
    monkeypatch.setattr(machine, "facts", lambda: msgspec.structs.replace(here, engine_id="OTHER"))
    assert restored() == [] and len(lab_files.views()) == 1
    monkeypatch.setattr(project, "all_labs", dict)
    assert restored() == [] and len(lab_files.views()) == 1

    monkeypatch.setattr(machine, "facts", lambda: here)
    monkeypatch.setattr(project, "all_labs", lambda: {killed.name: killed})
    assert len(restored()) == 1 and lab_files.views() == []


def test_without_an_engine_a_later_command_restores(killed, monkeypatch):
    """Sabotage: after a reboot no engine runs yet; a command that starts it, or needs none, must not fail."""

    def fail():
        raise LabError("the Docker engine does not answer")

    monkeypatch.setattr(docker_engine, "client", fail)

    assert restored() == [] and len(lab_files.views()) == 1


def test_a_lab_that_the_killed_command_started_is_not_restored(killed, monkeypatch):
    """It is removed as a whole."""
    monkeypatch.setattr(leftovers, "left_behind", lambda: [killed.name])

    assert restored() == [] and killed.node("replica").state()[0] == "exited"


def test_what_cannot_be_restored_is_told_and_the_rest_is_done(killed, monkeypatch):
    """Sabotage: the link does not answer; the node is started all the same."""

    def fail(*_):
        raise LabError("the proxy does not answer")

    monkeypatch.setattr(killed_views, "exchange", fail)

    assert restored() == [
        "warning: could not undo a change that a killed live view had left: the proxy does not answer",
        f"restored {killed.name}, which a killed live view had left changed: node replica (was exited)",
    ]


def test_the_first_of_several_views_is_found_whatever_the_clock_says(killed, monkeypatch):
    """By seconds since boot; a view from before the last boot comes first. The clock went back between two views."""
    [first] = lab_files.views()
    before = killed_views.read_own_as(first, killed_views.Before)
    monkeypatch.setattr(clock, "now", lambda: "1970-01-01T00:00:00.000+00:00")
    monkeypatch.setattr(clock, "timer", lambda: before.at + 1)
    with killed_views.kept(killed, writes=False):
        content = lab_files.view_of(killed.name).read_bytes()
    files.write_whole(first, msgspec.json.encode(before))
    files.write_whole(lab_files.FOLDER / f"{killed.name}.1{lab_files.VIEWED}", content)

    assert len(restored()) == 1
    assert killed.link(LINK).toxics() == [*catalogue.toxic("wan-85ms").bodies] and lab_files.views() == []
    earlier = msgspec.structs.replace(before, owner=mark(boot="another"), at=before.at + 1000)
    assert min([before, earlier], key=killed_views.Before.began) is earlier
