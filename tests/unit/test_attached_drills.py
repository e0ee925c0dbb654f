"""Does an attached project have a drill for each of its links and servers, and is what it cannot have refused?"""

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from replication_lab import replication
from replication_lab.attach import drills as attached_drills
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.fault import links_of
from replication_lab.model.lab.attachment import AttachedLink

from tests.unit.attached_projects import attachment
from tests.unit.test_attachment import REPLICATED


@pytest.fixture
def lab(monkeypatch):
    """Make an attached project, whose writer is db."""
    monkeypatch.setattr(replication, "of", lambda _lab: SimpleNamespace(written_at=lambda: "db"))
    return lambda found: SimpleNamespace(name="shop", attached=found, topology=found.topology)


def test_each_link_and_each_server_has_its_drills(lab):
    """Those of an application's link write across it; those of replication write at the source."""
    found = attached_drills.known(lab(REPLICATED))

    assert {name for name in found if name.endswith("-app-db")} == {
        "cut-link-app-db",
        "black-hole-app-db",
        "slow-link-app-db",
    }
    assert "cut-replication-db-db-replica" in found and "cut-link-db-db-replica" not in found
    assert {"kill-db", "kill-db-replica", "kill-other", "pause-db"} <= set(found)
    assert found["cut-link-app-db"].through == "app-db" and found["cut-link-app-db"].clients == {"db": 4}
    assert found["cut-replication-db-db-replica"].through == ""
    assert not any("{" in f"{each.about}{each.expected}" for each in found.values())


def test_a_link_to_a_server_that_takes_no_writes_has_a_drill_of_its_own(lab):
    """Clients that wrote across it would write rows into a replica."""
    reading = AttachedLink("reports", "db-replica", "reports", "db-replica", 3306, ["db-replica"], ["default"])
    found = attached_drills.known(lab(attachment(**{**fields(REPLICATED), "links": [*REPLICATED.links, reading]})))

    assert {name for name in found if name.endswith("reports-db-replica")} == {"cut-reads-reports-db-replica"}
    assert found["cut-reads-reports-db-replica"].clients == {"db": 4}
    assert found["cut-reads-reports-db-replica"].through == ""


GROUP = attachment(
    links=[
        AttachedLink("app", "db", "app", "db", 3306, ["db"], ["default"]),
        AttachedLink("reports", "db2", "reports", "db2", 3306, ["db2"], ["default"]),
    ],
    nodes=dict.fromkeys(("db", "db2", "db3"), "member"),
    ports=dict.fromkeys(("db", "db2", "db3"), 3306),
)


@pytest.mark.parametrize(("kind", "clients", "killed", "reads"), [("galera", {"db": 4}, 3, 0), ("group", 2, 40, 1)])
def test_members_that_elect_their_primary_are_all_tried(lab, kind, clients, killed, reads):
    """And a killed one stays away until the group has expelled it; any member of a Galera cluster takes writes."""
    found = attached_drills.known(lab(msgspec.structs.replace(GROUP, replication=kind)))

    assert found["kill-db2"].clients == (clients if kind == "galera" else dict.fromkeys(GROUP.nodes, clients))
    assert found["kill-db2"].steps[0].seconds == killed
    assert len([name for name in found if name.startswith("cut-reads-")]) == reads


def test_a_manager_that_was_named_has_its_drills(lab):
    """It is cut off from the server that takes writes, and killed with it or without."""
    found = attached_drills.known(lab(msgspec.structs.replace(REPLICATED, manager="operator", endpoint="proxy:6033")))
    own = {name: each for name, each in found.items() if name.endswith("-operator")}

    assert own.keys() == {"manager-kill-operator", "manager-cut-operator", "manager-killed-operator"}
    assert all(spec.targets == ["db"] for each in own.values() for spec in each.fault_specs)
    assert {each.endpoint for each in own.values()} == {"proxy:6033"}
    assert not any("manager" in name for name in attached_drills.known(lab(REPLICATED)))


def test_a_fault_stands_for_its_drills_on_every_target(lab):
    """Its whole name for one."""
    mine = lab(REPLICATED)

    assert [each.name for each in attached_drills.chosen(mine, "kill", None)] == [
        "kill-db",
        "kill-db-replica",
        "kill-other",
    ]
    assert [each.name for each in attached_drills.chosen(mine, "kill-other", 7)] == ["kill-other"]
    assert attached_drills.chosen(mine, "kill-other", 7)[0].steps[0].seconds == 7
    assert len(attached_drills.chosen(mine, None, None)) == len(attached_drills.known(mine))


@pytest.mark.parametrize(
    ("fault", "seconds", "found"),
    [
        ("disk-full", None, "its disk is this machine's own, which a drill must not fill"),
        ("fail-disk", None, "its disk is not emulated"),
        ("new-replica", None, "it would remove the data of a server that the lab did not start"),
        ("cut-lnk", None, "unknown drill of shop 'cut-lnk'"),
        ("kill", 0.0, "the fault would last 0 s"),
    ],
)
def test_what_a_project_cannot_have_is_refused(lab, fault, seconds, found):
    """With the reason, or the names that there are."""
    with pytest.raises(LabError) as caught:
        attached_drills.chosen(lab(attachment()), fault, seconds)

    assert found in caught.value.found


def test_a_file_of_the_users_own_cannot_bring_such_a_fault_either(lab, monkeypatch, tmp_path):
    """Its data would be lost."""
    mine = tmp_path / "fresh.yaml"
    steps = "steps: [{fault: new-replica, by: dump, targets: [db-replica], seconds: 1}]"
    mine.write_text(f"for: replication\nabout: x\nclients: {{db: 1}}\n{steps}\npromises: [nothing-lost]\n")
    monkeypatch.setattr(attached_drills.catalogue, "drills", lambda _folder: ["fresh"])
    monkeypatch.setattr(attached_drills.catalogue, "drill_file", lambda *_: mine)
    with pytest.raises(LabError) as caught:
        attached_drills.known(lab(REPLICATED))

    assert "it would remove the data of a server that the lab did not start" in caught.value.found


def test_an_application_is_probed_long_enough_beside_the_fault(lab):
    """The usual second before a fault has few probes in it."""
    [each] = attached_drills.probed(attached_drills.chosen(lab(attachment()), "cut-link", None))

    assert (each.before, each.after) == (5, 5)


def fields(attached):
    """Return the fields of an attachment, to change some of them."""
    return {name: getattr(attached, name) for name in attached.__struct_fields__}


class Recorded(list):
    """A journal that keeps its events."""

    folder = Path()
    write = list.append

    @contextmanager
    def recording(self, opening):
        yield self.write(opening)


@pytest.mark.parametrize(
    ("doubts", "reason"),
    [
        (["db1 exited with status 1 instead of restarting"], "db1 exited with status 1 instead of restarting"),
        ([], "the schema lab could not be removed: db1 does not answer"),
    ],
)
def test_a_server_that_does_not_come_back_ends_the_run_with_its_evidence(lab, monkeypatch, doubts, reason):
    """Sabotage: the schema of the drill cannot be removed either, and no further drill runs."""

    @contextmanager
    def left(_server):
        yield
        raise LabError("db1 does not answer")

    mine, journal, told = lab(REPLICATED), Recorded(), []
    kind = SimpleNamespace(written_at=lambda: "db", writer=lambda: None, elects=False, server=lambda name: name)
    monkeypatch.setattr(attached_drills.writable, "refuse_unfit", lambda *_: None)
    monkeypatch.setattr(replication, "of", lambda _lab: kind)
    monkeypatch.setattr(attached_drills, "own_schema", left)
    monkeypatch.setattr(attached_drills, "ledger", lambda *_: None)
    found = SimpleNamespace(doubts=doubts, spoilt=next(iter(doubts), ""))
    monkeypatch.setattr(attached_drills, "run_drill", lambda *_, **__: found)
    monkeypatch.setattr(attached_drills.described, "came_up", lambda *_: "came up")
    monkeypatch.setattr(attached_drills.described, "environment", lambda: None)
    mine.engine = "mariadb"
    attached_drills.run(mine, attached_drills.chosen(mine, "kill", None), 7, journal=journal, tell=told.append)

    evidence = [event for event in journal if hasattr(event, "doubts")]
    assert len(evidence) == 1 and evidence[0].doubts == doubts
    assert journal[-1].reason == f"shop did not return to its state before the drill: {reason}"


def test_a_server_stands_for_the_links_that_lead_to_it():
    """As in the lab's own topologies."""
    assert links_of(REPLICATED.topology, ["db"]) == ["app-db", "db-db-replica"]
