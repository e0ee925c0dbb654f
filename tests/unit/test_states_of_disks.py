"""Does each refusal about disks and machines that needs a rare state say what to type next?

tests/unit/conftest.py lets the real command line parse the commands that a message prints.
"""

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace as Some

import msgspec
import pytest
from replication_lab import replication
from replication_lab.faults import disks, replica_threads
from replication_lab.lab import disks as lab_disks
from replication_lab.lab import migrate
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.storage import Storage
from replication_lab.replication.drbd import Machines
from replication_lab.workloads import disk_io, race, row_updates
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks.array import Array
from replication_lab.world.docker import volumes
from replication_lab.world.machines import drbd
from replication_lab.world.machines import drbd as peers

from tests.fakes.states import failing, hurry, made, of

RAID0 = Storage(level="raid0", disks=2)


def disk_of_raid0(patch):
    patch.setattr(arrays, "array", lambda *_: Some(storage=RAID0))
    disks.DiskFail(of("raid"), ["raid0"])


def machine_without_such_a_disk(patch):
    patch.setattr(replication, "of", lambda _: Some(in_machines=True, disks=lambda _: {"disk1": 1}))
    lab_disks._spindle(of("drbd"), "node1", "disk9")


def text_in_no_sector(patch):
    patch.setattr(lab_disks, "_spindle", lambda *_: Some(find=lambda _: []))
    lab_disks.corrupt(of("raid"), "raid1", "disk1", "nowhere")


def healed_on_raid1(patch):
    patch.setattr(lab_disks, "_spindle", lambda *_: Some(stats=lambda: Some(errors=3)))
    patch.setattr(arrays, "arrays", lambda _: {"raid1": Some(storage=Storage(level="raid1"))})
    lab_disks.heal(of("raid"), "raid1", "disk1")


def node_with_options(patch):
    patch.setattr(migrate.lab_files, "saved_state", lambda _: Some(options={"raid1": {"x": 1}}))
    migrate._refuse_options(of("raid"), "raid1")


def left_at_a_lost_source(patch):
    patch.setattr(migrate.received, "backlog", lambda *_: Some(remedy=lambda _: ""))
    patch.setattr(migrate.received, "comes_again", lambda *_: False)
    patch.setattr(replication, "of", lambda _: Some(source_of=lambda _: "source"))
    migrate._refuse_loss(of(node=lambda _: Some(state=lambda: ("running", 0))), "replica")


def second_migration(patch):
    patch.setattr(migrate, "unfinished", lambda _: migrate.Migration("raid1", Storage(level="raid1"), "single", 0))
    migrate._plan(of("raid"), "raid0", RAID0)


def planned_migration(patch, node="raid1", held=1, old=None, backend="md"):
    patch.setattr(replication, "of", lambda _: Some(arrangement=lambda: ({"source": "source", "raid1": "replica"}, ())))
    patch.setattr(arrays, "arrays", lambda _: {"raid1": Some(storage=old)} if old else {})
    patch.setattr(migrate.volumes, "held_mib", lambda *_: held)
    patch.setattr(migrate.images, "ensure", lambda _: None)
    patch.setattr(migrate.overlay, "with_backend", lambda _: {node: msgspec.structs.replace(RAID0, backend=backend)})
    migrate._new_plan(of("raid"), node, RAID0)


def slow_disks(patch):
    steps = made(migrate.Steps, lab=of("raid"), node="raid1", storage=RAID0, _next_overlay=Path("x"))
    for room, name, found in (
        (arrays, "arrays", {}),
        (arrays, "Array", 0),
        (migrate.overlay, "overlay", ""),
        (migrate.project, "compose_file", ""),
        (migrate.project, "extend", 0),
        (migrate.files, "write_whole", 0),
        (migrate.disks, "kept_limits", [Proof("disk1", "9 ms a flush", False)]),
    ):
        patch.setattr(room, name, lambda *_, found=found: found)
    patch.setattr(steps, "_step", lambda _: nullcontext())
    steps.build()


def differing_copy(patch):
    patch.setattr(migrate, "BinaryLog", lambda _: Some(position=lambda: 1))
    patch.setattr(migrate, "Replica", lambda _: Some(wait_for=lambda *_: 1))
    source, copy = (Some(name=name, checksum=lambda _, name=name: name) for name in ("source", "raid1"))
    migrate._compare(source, copy, "lab.t")


def slow_readings(_patch):
    made(race.RacePhase, rows_per_second=lambda: {"raid0": None}).known_rows_per_second()


def no_events(patch):
    patch.setattr(row_updates.sysbench, "command", lambda *_: [])
    changes = made(row_updates.RowChanges, rows=1, width=1, databases=("lab",))
    patch.setattr(row_updates.RowChanges, "tables", ("t",), raising=False)
    changes.change(of(service=lambda _: Some(run=lambda *_: "Killed")), 7, 1)


def one_copy_has_no_second(_patch):
    Array(of("raid"), "raid0", RAID0).replace("disk1")


def unknown_disk(patch):
    patch.setattr(Array, "disks", {"disk1": 1})
    Array(of("raid"), "raid0", RAID0).disk("disk9")


def no_such_array(patch):
    patch.setattr(arrays, "arrays", lambda _: {})
    arrays.array(of(), "source")


def copy_of_a_volume_that_differs(patch):
    ended = Some(wait=lambda timeout: {"StatusCode": 1}, logs=lambda tail: b"they differ")
    patch.setattr(volumes, "_remove_if_there", lambda _: None)
    patch.setattr(volumes.engine, "client", lambda: Some(containers=Some(run=lambda *_, **__: ended)))
    volumes.copy(of("raid"), "old", "new")


def server_that_never_serves(patch):
    patch.setattr(peers, "SERVE_SECONDS", 0)
    patch.setattr(peers.Peer, "machine", Some(answers=lambda: False))
    made(peers.Peer, node="node1", lab=of("drbd")).wait_until_serves()


def nothing_comes_again(patch):
    left = Some(remedy=lambda _: "")
    patch.setattr(replica_threads.clock, "wait_until", failing(LabError("x")))
    patch.setattr(replica_threads.received, "settled", lambda *_: left)
    replica_threads.refuse_to_lose_relay_log(of(), "replica")


def split_brain_that_stays(patch):
    hurry(patch)
    victim = Some(node="node2", tell=print, status=lambda: Some(connection=drbd.STAND_ALONE))
    survivor = Some(node="node1", tell=print, status=lambda: Some(connection="WFConnection"))
    made(Machines, lab=of("drbd"))._discard(victim, survivor, {"node1": Some(disk=drbd.UP_TO_DATE)})


STATES = {
    disk_of_raid0: "./lab disk --help",
    nothing_comes_again: "./lab status",
    machine_without_such_a_disk: "./lab disk list",
    text_in_no_sector: './lab sql raid1 -e "FLUSH TABLES lab.t FOR EXPORT"',
    healed_on_raid1: "./lab disk replace raid1 disk1",
    node_with_options: "./lab status --lab shop",
    left_at_a_lost_source: "./lab start source",
    second_migration: "./lab disk migrate raid1 --to raid1",
    partial(planned_migration, node="source"): "./lab status",
    partial(planned_migration, old=RAID0): "./lab disk list",
    partial(planned_migration, held=9000): "./lab disk migrate raid1 --to raid0 --disk-size 11314",
    partial(planned_migration, backend="vm"): "./lab doctor",
    slow_disks: "./lab doctor",
    differing_copy: "./lab sql raid1; ./lab status",
    lambda _: disk_io._refuse_others("raid1", "reads", 100, 900): "./lab disk check raid1",
    slow_readings: "./lab run raid_replica",
    no_events: "./lab status",
    one_copy_has_no_second: "./lab disk heal raid0 disk1",
    unknown_disk: "./lab disk list raid0",
    no_such_array: "./lab up --help",
    copy_of_a_volume_that_differs: "./lab status",
    server_that_never_serves: "./lab logs node1 --lab shop",
    split_brain_that_stays: "./lab status",
}


@pytest.mark.parametrize(("state", "step"), STATES.items())
def test_a_refusal_of_a_rare_state_says_what_to_type(state, step, monkeypatch, refused):
    """The whole of its next step."""
    assert refused(state, monkeypatch).next_step == step
