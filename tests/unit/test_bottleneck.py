"""Is the bottleneck named correctly, and is no resource named without evidence?"""

import subprocess
import time

import msgspec
import pytest
from replication_lab.probes.bottleneck import (
    Applier,
    Bottleneck,
    DiskLoad,
    NodeSample,
    QueueLoad,
    Thread,
    diagnose,
)
from replication_lab.probes.node_resources import LOOKS
from replication_lab.world.mysql.replica import Progress

DISK = DiskLoad("disk1", reads=0, writes=100, flushes=0, busy=0.1, writing=0.1)
APPLIER = Thread(7, "slave_sql", cpu=0.5, waits_for_disk=0.0, written_kib=0)
QUIET = NodeSample(
    node="replica",
    seconds=5,
    cpus=2,
    cpu=0.4,
    throttled=0,
    fsyncs=10,
    lock_waiting=0,
    received_kib=100,
    sent_kib=10,
    pressure={"cpu": 0.1, "io": 0.2},
    threads=[APPLIER],
    devices=[DISK],
)
BEHIND = Applier(tid=7, state="Applying", behind=True, starved=False, rate=1e5)
LEVEL = Applier(tid=7, state="Waiting for more updates", behind=False, starved=False, rate=1e5)


HANGS, PASSES = (
    {"Waiting for semi-sync ACK from slave": 9.0},
    {"Waiting for semi-sync ACK from replica": 0.0},
)
STOPPED = msgspec.structs.replace(BEHIND, stopped="the applier is stopped: error 1032")


def queues(*stops, paused_s=3.0):
    """Return the queues of a cluster of Galera; `replica` is its first node."""
    return {name: QueueLoad(20, 16, sent, paused_s) for name, sent in zip(("replica", "b", "c"), stops, strict=True)}


def seen(**changes):
    return diagnose(msgspec.structs.replace(QUIET, **changes))


def busy(**changes):
    return [msgspec.structs.replace(DISK, **{"busy": 0.95, **changes})]


def waiting(share):
    return [msgspec.structs.replace(APPLIER, waits_for_disk=share)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Bottleneck.NONE),
        ({"applier": LEVEL}, Bottleneck.NONE),
        ({"applier": BEHIND}, Bottleneck.APPLIER),
        ({"lock_waiting": 1.0, "applier": BEHIND}, Bottleneck.LOCK),
        ({"applier": msgspec.structs.replace(BEHIND, state="Waiting for table metadata lock")}, Bottleneck.LOCK),
        ({"applier": msgspec.structs.replace(LEVEL, starved=True)}, Bottleneck.NETWORK),
        ({"applier": msgspec.structs.replace(BEHIND, starved=True)}, Bottleneck.APPLIER),
        ({"throttled": 0.9}, Bottleneck.CPU),
        ({"cpu": 1.9}, Bottleneck.CPU),
        ({"hindrance": "no majority", "cpu": 1.9}, Bottleneck.MEMBERSHIP),
        ({"applier": STOPPED, "cpu": 1.9}, Bottleneck.APPLIER),
        ({"waits": {"Waiting for global read lock": 5.0}, "cpu": 1.9}, Bottleneck.LOCK),
        # Sessions that hang hold row locks, for which others wait.
        ({"waits": HANGS, "lock_waiting": 3.0}, Bottleneck.ACKNOWLEDGEMENT),
        ({"waits": PASSES, "cpu": 1.9}, Bottleneck.CPU),
        ({"waits": PASSES}, Bottleneck.ACKNOWLEDGEMENT),
        ({"queues": queues(1, 2, 90), "lock_waiting": 3.0}, Bottleneck.FLOW_CONTROL),
        # The node that sets it waits for a resource of its own.
        ({"queues": queues(90, 2, 1), "throttled": 0.9}, Bottleneck.CPU),
        ({"queues": queues(90, 2, 1)}, Bottleneck.FLOW_CONTROL),
        ({"queues": queues(1, 2, 90, paused_s=0.5)}, Bottleneck.NONE),
        (
            {"queues": {"replica": QueueLoad(1, 20), "b": QueueLoad(21, 20), "c": QueueLoad(20, 20)}},
            Bottleneck.FLOW_CONTROL,
        ),
        ({"queues": {"replica": QueueLoad(1, 20), "b": QueueLoad(20, 20), "c": QueueLoad(20, 20)}}, Bottleneck.NONE),
        ({"devices": busy(writing=0.9)}, Bottleneck.DISK),
        ({"devices": busy(flushing=0.9, writing=0.05)}, Bottleneck.FSYNC),
        ({"devices": busy(reading=0.9, writing=0.05)}, Bottleneck.READS),
        ({"devices": busy(writing=0, flushing=0)}, Bottleneck.DISK),
        (
            {"devices": busy(busy=0.49, flushing=0.49, writing=0), "applier": BEHIND, "threads": waiting(1.0)},
            Bottleneck.FSYNC,
        ),
        (
            {"devices": busy(busy=0.49, flushing=0.49, writing=0), "applier": BEHIND, "threads": waiting(0.3)},
            Bottleneck.APPLIER,
        ),
    ],
)
def test_the_bottleneck_is_what_the_figures_say(changes, expected):
    """Each resource alone, and those that hide another: an applier that waits for its disk is not slow itself."""
    assert seen(**changes).bottleneck is expected


@pytest.mark.parametrize(
    ("stops", "named"), [((1, 2, 90), "set by c; next: ./lab diagnose c"), ((0, 60, 40), "set by no node alone")]
)
def test_only_a_node_that_stops_the_others_by_far_most_often_is_named(stops, named):
    """Where nodes are equally fast, each sometimes has the longest queue."""
    found = seen(queues=queues(*stops))

    assert found.because == f"commits waited for it 60% of the time, {named}"
    assert "queue      c: 20 received and not applied, limit 16, paused 60% of the time" in found.evidence[-1]


@pytest.mark.parametrize(
    ("state", "behind"),
    [("Slave has read all relay log; waiting for more updates", False), ("Update_rows_log_event::find_row(1)", True)],
)
def test_an_applier_that_waits_for_the_rest_of_a_transaction_has_no_work(state, behind):
    """A part of it was received and is not applied, on a slow link all the time."""
    progress = Progress(received=("log.1", 900), applied=("log.1", 800), state=state, tid=7)

    assert progress.behind is behind


def test_the_reason_has_the_figures():
    """Every reason contains a number."""
    found = seen(devices=busy(flushing=0.9, writing=0.05, flushes=45))

    assert "busy 95% of the time, 90% flushing (45/s), 5% writing" in found.because


def test_each_tools_view_is_a_line_of_evidence():
    """CPU, pressure, disk, thread, server, network, applier."""
    found = seen(applier=BEHIND)

    assert [line.split()[0] for line in found.evidence] == [
        "CPU", "pressure", "disk", "thread", "server", "network", "applier",
    ]  # fmt: skip
    assert "(the applier)" in found.evidence[3]


def test_of_two_disks_the_busier_is_named():
    """The member that all others wait for."""
    slow = msgspec.structs.replace(DISK, name="disk2", busy=0.99, writing=0.99)

    assert seen(devices=[*busy(writing=0.9), slow]).because.startswith("disk2 was busy 99%")


@pytest.mark.whole
def test_threads_are_sampled_for_the_time_asked_for():
    """However long one sample takes: counted samples took 4 s where 5 s were asked for."""
    began = time.monotonic()
    found = subprocess.run(["sh", "-c", LOOKS, "look", "60"], capture_output=True, text=True, check=False).stdout

    assert 0.5 <= time.monotonic() - began < 5
    _, *looks, _, rest = found.split("--\n")
    assert len(looks) >= 2 and rest == ""
