"""A replica moves onto other disks on real servers: killed at each step, stopped, refused, and its data compared."""

import secrets
import signal

import pytest
from replication_lab.lab import migrate, up
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.world import catalogue, signals
from replication_lab.world.disks import array, overlay
from replication_lab.world.docker import images, project, volumes
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica

from tests.lab.conftest import things_of
from tests.lab.test_bad_luck import read_until

ROWS = 5000
DISKS = {"disk": "unlimited", "disks": 0, "mib": 1024, "backend": "auto"}


@pytest.fixture(scope="module")
def lab(docker):
    """Yield a source and a replica on the engine's own disk, the link without toxics."""
    topology = catalogue.topology("async")
    images.ensure([*up.image_names("mariadb", topology=topology), *overlay.IMAGES])
    lab = project.start(LabRequest(topology, "mariadb", f"test-{secrets.token_hex(4)}"))
    lab.node("source").server().execute(
        "CREATE TABLE lab.held (id INT PRIMARY KEY, filler CHAR(200)) ENGINE=InnoDB",
        f"INSERT INTO lab.held SELECT seq, REPEAT('x', 200) FROM lab.seq_1_to_{ROWS}",
        "CREATE VIEW lab.seen AS SELECT * FROM lab.held",
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY)",
    )
    yield lab
    with signals.signals_held():
        lab.down()


def to(level):
    [storage] = up.storage_of("async", [level], **DISKS).values()
    return storage


class Killed(BaseException):
    """Stands for SIGKILL: nothing is undone, since `back` is away too."""


def kill_after(monkeypatch, step):
    whole = getattr(migrate.Steps, step)

    def dying(self):
        whole(self)
        raise Killed(step)

    monkeypatch.setattr(migrate.Steps, step, dying)
    monkeypatch.setattr(migrate.Steps, "back", lambda self: None)


@pytest.mark.long
def test_a_migration_killed_after_each_step_is_gone_on_with(lab, monkeypatch):
    """Until the switch the node has its old data directory; after the last step the new one, equal to its source."""
    [old], source = volumes.of(lab, "replica"), lab.node("source").server()
    for step in ("build", "stop", "copy"):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            kill_after(patch, step)
            migrate.migrate(lab, "replica", to("raid0"), print)
        assert volumes.of(lab, "replica") == [old]
        assert migrate.unfinished(lab).node == "replica"
        source.execute(f"UPDATE lab.held SET filler = '{step}' WHERE id % 7 = 0")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_after(patch, "switch")
        migrate.migrate(lab, "replica", to("raid0"), print)
    source.execute("UPDATE lab.held SET filler = 'late' WHERE id % 5 = 0")
    done = migrate.migrate(lab, "replica", to("raid0"), print)

    assert done.before == "the Docker engine's disk" and done.after.startswith("raid0 of 2 unlimited by ")
    assert done.tables >= 2 and migrate.unfinished(lab) is None
    assert old not in things_of(lab.name)
    assert array.array(lab, "replica").is_mounted()
    assert lab.node("replica").server().checksum("lab.held") == lab.node("source").server().checksum("lab.held")
    things = set(things_of(lab.name))
    with pytest.raises(LabError, match="is already on raid0 of unlimited"):
        migrate.migrate(lab, "replica", to("raid0"), print)
    assert set(things_of(lab.name)) == things and migrate.unfinished(lab) is None


@pytest.mark.long
def test_an_error_before_the_switch_puts_the_old_data_back_into_service(lab, monkeypatch):
    """A copy that is not equal is no copy: the node replicates from where it was, and nothing new is left."""
    before, things = volumes.of(lab, "replica"), set(things_of(lab.name))
    monkeypatch.setattr(volumes, "COPY", "cp -a /from/. /to/ && rm /to/ibdata1 && diff --recursive --brief /from /to")

    with pytest.raises(LabError, match="Only in /from: ibdata1"):
        migrate.migrate(lab, "replica", to("raid1"), print)

    lab.refresh()
    assert volumes.of(lab, "replica") == before
    assert set(things_of(lab.name)) == things
    Replica(lab.node("replica").server()).wait_for(BinaryLog(lab.node("source").server()).position())
    assert Replica(lab.node("replica").server()).status().healthy


def test_what_is_no_replica_is_not_migrated(lab):
    """And the lab is as it was."""
    things = set(things_of(lab.name))

    with pytest.raises(LabError, match="is not a leaf replica"):
        migrate.migrate(lab, "source", to("raid0"), print)

    assert set(things_of(lab.name)) == things and migrate.unfinished(lab) is None


def test_disks_too_small_for_the_data_are_refused_with_the_size_that_does(lab, monkeypatch):
    """Found before the server is stopped."""
    monkeypatch.setattr(volumes, "held_mib", lambda lab, node: 5000)

    with pytest.raises(LabError, match="holds 5000 MiB") as refusal:
        migrate.migrate(lab, "replica", to("raid1"), print)

    assert "--disk-size 6314" in refusal.value.next_step


@pytest.mark.long
def test_ctrl_c_leaves_the_replica_on_its_old_disks(name, command, start_command):
    """Stopped while it copies, the command says so, and the node goes on."""
    assert command("up", "async", "--lab", name, "--toxic", "source-replica=lan").returncode == 0
    process = start_command("disk", "migrate", "replica", "--lab", name, "--to", "single", "--disk", "unlimited")
    read_until(process, "copy and compare")
    process.send_signal(signal.SIGINT)

    assert process.wait(60) == 130, process.stdout.read()
    found = project.find(name)
    assert volumes.of(found, "replica") == [f"{name}_replica-data"]
    assert Replica(found.node("replica").server()).status().healthy
    assert not [thing for thing in things_of(name) if "replica-2" in thing]
