"""`lab up`, `status`, `show`, `sql`, `toxic` and `down`, as a user types them."""

import json

import pytest
from replication_lab.world import catalogue
from replication_lab.world.docker import leftovers, project

from tests.lab.conftest import things_of


@pytest.fixture(scope="module")
def up(command):
    """Yield what the command printed that started the lab."""
    answer = command("up", "semisync", "--lab", "test-up")
    assert answer.returncode == 0, answer.stderr
    yield answer
    leftovers.remove("test-up")


def test_up_proves_link_and_semisync_and_says_how_to_connect(up):
    """What is printed names the measured round trip, the timed commit and an address."""
    assert "verified: link source-replica is wan-85ms: round trip 8" in up.stderr
    assert "2 of 2 acknowledged" in up.stderr
    assert "connect   source 127.0.0.1:" in up.stdout


def test_up_again_changes_nothing(up, command):
    """The containers are the very same, and it says so."""
    before = {service: one.id for service, one in project.find("test-up").containers.items()}

    again = command("up", "semisync", "--lab", "test-up")

    assert again.returncode == 0
    assert "already running; nothing changed" in again.stderr
    assert before == {service: one.id for service, one in project.find("test-up").containers.items()}


def test_up_with_another_engine_under_the_same_name_is_refused(up, command):
    """The running lab is not replaced."""
    answer = command("up", "semisync", "--lab", "test-up", "--engine", "mysql-5.5")

    assert answer.returncode == 2
    assert "is already running with mariadb" in answer.stderr


def test_status_as_data_holds_nodes_links_and_proofs(up, command):
    """A program can read what a person sees."""
    (lab,) = (each for each in json.loads(command("status", "--json").stdout) if each["name"] == "test-up")

    assert [node["health"] for node in lab["nodes"]] == ["healthy", "healthy"]
    assert lab["links"][0]["toxics"] == ["wan-85ms"]
    # A busy machine lengthens a round trip, and shortens none; a toxic that acts twice would double it.
    assert 80 < lab["links"][0]["round_trip_ms"] < 2 * 85
    assert all(proof["ok"] for proof in lab["proofs"])


def test_show_draws_the_topology_from_its_source_down(up, command):
    """Source, its link with the toxic, and the replica under it, in this order."""
    tree = command("status", "--lab", "test-up").stdout

    assert tree.index("source (source)") < tree.index("link source-replica  wan-85ms") < tree.index("replica (replica)")


def test_sql_runs_a_statement_on_a_node(up, command):
    """The replica knows its own server id."""
    answer = command("sql", "replica", "--lab", "test-up", "-e", "SELECT @@server_id AS id", "--json")

    assert json.loads(answer.stdout) == [{"id": 2}]


def test_a_running_lab_is_not_taken_for_something_left_behind(up):
    """Its process has ended long ago, and it was meant to stay."""
    assert "test-up" not in leftovers.left_behind()


@pytest.mark.long
def test_a_second_lab_stands_beside_the_first_and_goes_without_it(up, command, name):
    """Other ports, other passwords, and the first lab's toxic untouched; `down` removes all of the second one only."""
    assert command("up", "async", "--lab", name, "--toxic", "source-replica=lan").returncode == 0

    first, second = project.find("test-up"), project.find(name)
    assert not set(first.passwords.values()) & set(second.passwords.values())
    assert first.node("source").published(3306) != second.node("source").published(3306)
    assert [] == second.link("source-replica").toxics()
    assert 2 == len(first.link("source-replica").toxics())

    others = things_of("test-up")
    assert things_of(name)
    assert command("down", "--lab", name).returncode == 0

    assert [] == things_of(name)
    assert [] == list((catalogue.RUNS / "labs").glob(f"{name}*"))
    assert others == things_of("test-up") and (catalogue.RUNS / "labs" / "test-up.json").exists()


def test_down_without_a_lab_is_no_error_but_an_unknown_name_is(command):
    """It says which labs there are."""
    answer = command("down", "--lab", "no-such-lab")

    assert answer.returncode == 2
    assert "no lab 'no-such-lab' is running" in answer.stderr
