"""Is the replication of a project recognised on real servers, and is the project as before after its drills?"""

import pytest
from replication_lab.replication import group
from replication_lab.world.docker import project
from replication_lab.world.mysql.semisync import SemiSync

from tests.lab import attaching

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module", autouse=True)
def images(built):
    """Build the application of the projects, and the server that stands for the vendor's."""
    attaching.build()


def recognised(name):
    """Return the kind of replication of an attached project, and the role of each server."""
    found = project.find(name).topology
    return found.replication, {node.name: node.role for node in found.nodes}


def test_a_database_alone_is_recognised(command, attach, started):
    """It has an application link and no replication; its database is the one of its environment."""
    name = started("shop")
    before = attaching.settings(name)
    answer = attach("shop", name, "--link", "app:db")

    assert answer.returncode == 0, answer.stderr
    assert recognised(name) == ("none", {"db": "source"})
    assert command("sql", "--lab", name, "-e", "SELECT DATABASE() AS here").stdout.split()[-1] == "shop"
    for fault in ("cut-link", "kill"):
        code, said = attaching.drilled(command, name, "--drill", fault)
        assert code == 0 and "HOLDS" in said, said
    attaching.restored(command, "shop", name, before)


def test_semi_sync_is_recognised_and_waits_for_its_replica(command, attach, started):
    """A commit takes the round trip of the link; a replica that is cut or killed loses no acknowledged row."""
    name = started("waiting")
    before = attaching.settings(name)
    links = ("app:mysql-source", "reports:mysql-replica", "mysql-source:mysql-replica")
    asked = [part for link in links for part in ("--link", link)]
    answer = attach("waiting", name, *asked, "--rtt", "40ms")

    assert answer.returncode in (0, 3), answer.stderr
    assert recognised(name) == ("semisync", {"mysql-source": "source", "mysql-replica": "replica"})
    seen = SemiSync(project.find(name).node("mysql-source").server()).status()
    assert seen.active and seen.replicas == 1
    assert "semi-sync ON" in attaching.nodes(command, name)["mysql-source"]
    for fault in ("cut-link-app-mysql-source", "cut-replication", "cut-reads", "kill"):
        code, said = attaching.drilled(command, name, "--drill", fault)
        assert code == 0 and "HOLDS" in said, said
    attaching.restored(command, "waiting", name, before)
    again = attach("waiting", name, "--link", "app:mysql-source")
    assert again.returncode in (0, 3) and recognised(name)[0] == "semisync", again.stderr
    attaching.restored(command, "waiting", name, before)


def test_a_group_is_recognised_and_elects_another_primary(command, attach, started):
    """Members report the host names of their containers; after a drill the primary is the one of before."""
    name = started("group")
    before, planned = attaching.settings(name), attaching.changed_by_up("group", name)
    answer = attach("group", name, "--link", "app:mysql1", "--rtt", "40ms")

    assert answer.returncode in (0, 3), answer.stderr
    assert recognised(name) == ("group", dict.fromkeys(("mysql1", "mysql2", "mysql3"), "member"))
    assert group.primary(project.find(name)) == "mysql1"
    assert attaching.nodes(command, name)["mysql1"].startswith("ONLINE, primary, sees mysql1 mysql2 mysql3")
    for fault in ("cut-link", "kill-mysql1", "kill-mysql2"):
        code, said = attaching.drilled(command, name, "--drill", fault)
        assert code == 0 and "HOLDS" in said, said
        assert group.primary(project.find(name)) == "mysql1"
    attaching.restored(command, "group", name, before, planned)


def test_a_group_with_several_primaries_is_refused_and_left_as_it_is(attach, started):
    """Before anything of the project is changed."""
    name = started("group")
    attaching.inside(
        f"{name}-mysql1-1",
        *("mysql", "-uroot", "-pgroup-secret", "-e", "SELECT group_replication_switch_to_multi_primary_mode()"),
    )
    before = attaching.settings(name)
    answer = attach("group", name, "--link", "app:mysql1")

    assert answer.returncode == 2
    assert "has 3 primaries" in answer.stderr and "switch_to_single_primary_mode" in answer.stderr
    assert attaching.settings(name) == before and name not in project.all_labs()
