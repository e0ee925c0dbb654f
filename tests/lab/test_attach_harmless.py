"""Is nothing of a project lost that does not come back? Real projects, as their authors wrote them."""

import contextlib
import secrets
import shutil
import subprocess
from pathlib import Path

import pytest
from replication_lab.world import clock
from replication_lab.world.docker import images as lab_images
from replication_lab.world.docker import project

from tests.lab import attaching

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", autouse=True)
def images(built):
    """Build the application of the projects, and the server that stands for the vendor's."""
    attaching.build()


def test_a_replica_whose_data_are_in_its_container_is_refused(attach, started, tmp_path):
    """Its only volume is for logs, and is called like the server. Its rows are still there, and it still replicates."""
    name = started("lost")
    before = attaching.settings(name)
    attaching.query(name, "mysql-source", "lost-secret", "INSERT INTO shop.orders (item) VALUES ('book')")
    refused = attach("lost", name, "--link", "mysql-replica:mysql-source")

    assert refused.returncode == 2
    assert "datadir: /var/lib/mysql, which is on no volume" in refused.stderr
    assert "a link from mysql-replica would recreate its container" in refused.stderr
    subprocess.run(attaching.next_command(refused.stderr).split(), cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "mysql-replica-data" / "ibdata1").exists()
    assert attaching.settings(name) == before and name not in project.all_labs()
    said = attaching.query(name, "mysql-replica", "lost-secret", "SHOW REPLICA STATUS; SELECT item FROM shop.orders")
    assert "Replica_SQL_Running: Yes" in said and "item: book" in said


def test_a_replica_whose_keys_are_in_its_container_is_refused(attach, started):
    """What it would be: a server that is healthy and replicates, with a table that nothing can read again."""
    lab_images.ensure(["mysql"])
    name, secret = started("keyring"), "keyring-secret"
    table = "CREATE TABLE shop.cards (id INT PRIMARY KEY) ENCRYPTION = 'Y'; INSERT INTO shop.cards VALUES (7)"
    attaching.query(name, "source", secret, table)

    def readable():
        with contextlib.suppress(subprocess.CalledProcessError):
            return "id: 7" in attaching.query(name, "replica", secret, "SELECT id FROM shop.cards")

    clock.wait_until(readable, "the row on the replica")
    before = attaching.settings(name)
    refused = attach("keyring", name, "--link", "replica:source")
    assert refused.returncode == 2 and "the keyring in /tmp/keys" in " ".join(refused.stderr.split()), refused.stderr
    assert attaching.settings(name) == before and name not in project.all_labs()

    attaching.compose("keyring", name, "up", "--detach", "--wait", "--force-recreate", "--no-deps", "replica")
    asked = "SELECT 1; SHOW REPLICA STATUS"
    clock.wait_until(lambda: "SQL_Running: Yes" in attaching.query(name, "replica", secret, asked), "it replicates")
    with pytest.raises(subprocess.CalledProcessError) as lost:
        attaching.query(name, "replica", secret, "SELECT id FROM shop.cards")
    assert "ERROR 3185" in lost.value.stderr and "Can't find master key from keyring" in lost.value.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("STOP REPLICA; RESET REPLICA ALL", "which is on no volume"),
        ("STOP REPLICA", "which is on no volume"),
        ("SET SQL_LOG_BIN = 0; ALTER USER 'root'@'%' IDENTIFIED BY 'other'", "cannot ask it where its data are"),
    ],
    ids=["it has no source now", "it has stopped", "it accepts no account"],
)
def test_a_server_that_is_not_recognised_as_a_replica_is_asked_too(attach, started, change, said):
    """What a link would recreate is a server by its program, whatever it replicates."""
    name = started("lost")
    before = attaching.settings(name)
    attaching.query(name, "mysql-replica", "lost-secret", change)
    refused = attach("lost", name, "--link", "mysql-replica:mysql-source")

    assert refused.returncode == 2 and said in " ".join(refused.stderr.split()), refused.stderr
    assert attaching.settings(name) == before and name not in project.all_labs()


def test_a_backup_in_the_image_of_a_server_is_a_consumer(attach, command, started):
    """It runs no server, so it may be recreated, and no data are asked for."""
    name = started("lost")
    before = attaching.settings(name)
    answer = attach("lost", name, "--link", "backup:mysql-source")

    assert answer.returncode == 3, answer.stderr
    attaching.restored(command, "lost", name, before)


def test_a_replica_of_two_sources_is_refused_in_plain_words(attach, started):
    """Before anything changes: both channels still run."""
    name = started("channels")
    before = attaching.settings(name)
    refused = attach("channels", name, "--link", "replica:source2")

    assert refused.returncode == 2
    assert "replica replicates by 2 channels (first from source1, second from source2)" in refused.stderr
    assert attaching.settings(name) == before and name not in project.all_labs()
    assert attaching.query(name, "replica", "channels-secret", "SHOW ALL SLAVES STATUS").count("SQL_Running: Yes") == 2


def test_a_ring_is_refused_in_plain_words(attach, started):
    """Whichever server the link leads to; both still replicate."""
    name = started("ring")
    before = attaching.settings(name)
    for link in ("east:west", "west:east"):
        refused = attach("ring", name, "--link", link)
        assert refused.returncode == 2 and "replicate from each other in a ring" in refused.stderr, refused.stderr

    assert attaching.settings(name) == before and name not in project.all_labs()
    for service in ("east", "west"):
        assert "SQL_Running: Yes" in attaching.query(name, service, "ring-secret", "SHOW SLAVE STATUS")


def test_no_drill_writes_into_a_source_with_a_filter(attach, command, started):
    """The replicas would get a table without its schema, and stop: a drill of an earlier version did that to them."""
    name, secret = started("filtered"), "filtered-secret"
    before = attaching.settings(name)
    answer = attach("filtered", name, "--link", "app:source")
    refused = command("drill", "--lab", name, "--drill", "cut-link")

    assert answer.returncode in (0, 3) and "`lab drill` will be refused" in answer.stderr, answer.stderr
    assert refused.returncode == 2 and "source has the filter Binlog_Do_DB = app" in refused.stderr
    attaching.query(name, "source", secret, "USE app; INSERT INTO app.orders (item) VALUES ('book')")
    for replica in ("replica1", "replica2"):
        clock.wait_until(
            lambda at=replica: "item: book" in attaching.query(name, at, secret, "SELECT * FROM app.orders"), replica
        )
        assert "Slave_SQL_Running: Yes" in attaching.query(name, replica, secret, "SHOW SLAVE STATUS")
    for each in ("source", "replica1"):
        assert "lab" not in attaching.query(name, each, secret, "SHOW DATABASES").split()
    attaching.restored(command, "filtered", name, before)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "STOP SLAVE; CHANGE MASTER TO MASTER_DELAY = 3600; START SLAVE",
            "writes 3600 s later (SQL_Delay)",
        ),
        ("STOP SLAVE SQL_THREAD", "does not replicate from db-primary (IO thread runs, SQL thread stopped)"),
    ],
    ids=["delayed", "stopped"],
)
def test_no_drill_waits_for_a_replica_that_does_not_apply(attach, command, started, change, said):
    """Its server says so at once; nothing is written, and the project is as before."""
    name, secret = started("replicas"), "replicated-secret"
    attaching.query(name, "db-replica", secret, change)
    before = attaching.settings(name)
    answer = attach("replicas", name, "--link", "app:db")
    began = clock.timer()
    refused = command("drill", "--lab", name, "--drill", "cut-link")

    assert answer.returncode in (0, 3) and "`lab drill` will be refused" in answer.stderr, answer.stderr
    assert refused.returncode == 2 and said in " ".join(refused.stderr.split()), refused.stderr
    assert clock.timer() - began < 30
    assert "lab" not in attaching.query(name, "db", secret, "SHOW DATABASES").split()
    attaching.restored(command, "replicas", name, before)


def test_a_source_by_the_name_of_a_link_is_recognised(attach, command, tmp_path):
    """`links` give the replica a name for it that no other service has."""
    folder = Path(shutil.copytree(attaching.PROJECTS / "replicas", tmp_path / "replicas"))
    file, follow = folder / "docker-compose.yml", folder / "config" / "replica.sql"
    file.write_text(file.read_text().replace("  db-replica:\n", "  db-replica:\n    links: ['db:mysql']\n", 1))
    follow.write_text(follow.read_text().replace("'db-primary'", "'mysql'"))
    name = f"links-{secrets.token_hex(3)}"
    with attaching.running(folder, name):
        before = attaching.settings(name)
        asked = ("attach", "-f", str(file), "-p", name, "--link", "db-replica:db", "--rtt", "40ms", "--yes")
        answer = command(*asked, **attaching.ENVIRONMENT)

        assert answer.returncode == 0, answer.stderr
        assert "verified: db-replica uses link db-db-replica" in answer.stderr
        assert "verified: db, db-replica: healthy, and replicating as before" in answer.stderr
        code, said = attaching.drilled(command, name, "--drill", "cut-replication")
        assert code == 0 and "HOLDS" in said, said
        assert command("detach", "--lab", name).returncode == 0
        assert attaching.settings(name) == before


def test_a_server_in_the_network_of_another_service_is_a_node(attach, command, tmp_path):
    """The lab reaches it by that service, and sees that it replicates; nothing of it is recreated."""
    folder = Path(shutil.copytree(attaching.PROJECTS / "replicas", tmp_path / "replicas"))
    file = folder / "docker-compose.yml"
    gateway = (
        "  gateway:\n    image: ${SHOP_IMAGE:-shop}\n    command: [sleep, infinity]\n    stop_grace_period: 1s\n\n"
    )
    shared = f"{gateway}  db-replica:\n    network_mode: service:gateway\n"
    file.write_text(file.read_text().replace("  db-replica:\n", shared, 1))
    name = f"gateway-{secrets.token_hex(3)}"
    with attaching.running(folder, name):
        before = attaching.settings(name)
        asked = ("attach", "-f", str(file), "-p", name, "--link", "app:db", "--yes")
        answer = command(*asked, **attaching.ENVIRONMENT)
        refused = command(*asked[:-2], "db-replica:db", "--yes", **attaching.ENVIRONMENT)

        assert answer.returncode in (0, 3), answer.stderr
        assert attaching.nodes(command, name)["db-replica"].startswith("replicates from db-primary:3306")
        assert refused.returncode == 2
        assert command("detach", "--lab", name).returncode == 0
        assert attaching.settings(name) == before


def test_a_replica_that_has_stopped_is_told_with_the_command_that_repairs_it(attach, command, started):
    """Sabotage: while it is attached the replica gets a row that its source writes later."""
    name, secret = started("replicas"), "replicated-secret"
    assert attach("replicas", name, "--link", "db:db-replica").returncode == 0
    for service in ("db-replica", "db"):
        attaching.query(name, service, secret, "INSERT INTO shop.orders (id, item) VALUES (900, 'book')")
    detached = command("detach", "--lab", name)

    assert detached.returncode == 1
    assert "db-replica" in detached.stderr and "Duplicate entry '900'" in detached.stderr, detached.stderr
    attaching.query(name, "db-replica", secret, "DELETE FROM shop.orders WHERE id = 900")
    subprocess.run(attaching.next_command(detached.stderr), shell=True, check=True, capture_output=True)
    clock.wait_until(
        lambda: "Slave_SQL_Running: Yes" in attaching.query(name, "db-replica", secret, "SHOW SLAVE STATUS"), "it runs"
    )


def test_a_lost_relay_log_is_told_with_the_command_that_receives_it_again(attach, command, started):
    """Sabotage: its files are deleted while the project is attached; the server looks for them when it is recreated."""
    name, secret = started("replicas"), "replicated-secret"
    assert attach("replicas", name, "--link", "db:db-replica").returncode == 0
    attaching.inside(f"{name}-db-replica-1", "sh", "-c", "rm /var/lib/mysql/relay.0*")
    attaching.query(name, "db", secret, "INSERT INTO shop.orders (item) VALUES ('book')")
    detached = command("detach", "--lab", name)

    assert detached.returncode == 1 and "relay log" in detached.stderr, detached.stderr
    subprocess.run(attaching.next_command(detached.stderr), shell=True, check=True, capture_output=True)
    clock.wait_until(
        lambda: "item: book" in attaching.query(name, "db-replica", secret, "SELECT * FROM shop.orders"), "the row"
    )
