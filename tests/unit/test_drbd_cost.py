"""Does drbd_cost see the law in disks that keep it, and doubt states that were not as asked?"""

from itertools import groupby
from typing import Any

import pytest
from replication_lab import experiments
from replication_lab.experiments import drbd_cost
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.verdict import Verdict
from replication_lab.replication import drbd_state
from replication_lab.workloads import sysbench
from replication_lab.world.disks import spindle

KNOWN = experiments.load("drbd_cost")
LAW = ("untuned-costs", "tuned-gains", "tuned-flushes-nothing", "network-gains-nothing", "activity-log-gains-nothing")
SUMMARY = """
SQL statistics:
    queries performed:
        read:                            3136
        write:                           896
        other:                           448
        total:                           4480
    transactions:                        224    (14.93 per sec.)
    queries:                             4480   (298.60 per sec.)
    ignored errors:                      0      (0.00 per sec.)

General statistics:
    total time:                          15.0034s
    total number of events:              224

Latency (ms):
         min:                                   66.59
         avg:                                  267.34
         max:                                  459.52
         95th percentile:                      350.33
"""


def verdicts(summary):
    return {claim.id: claim.verdict for claim in summary.claims}


def test_the_law_holds_in_the_model(ran):
    """A commit waits W alone and W + F with a peer that flushes; nothing else matters there."""
    summary, _, _ = ran(KNOWN, preset="quick")

    assert {verdicts(summary)[claim] for claim in LAW} == {Verdict.HOLDS}
    measured = next(claim for claim in summary.claims if claim.id == "untuned-costs")
    assert measured.measured == pytest.approx(drbd_cost.kept(), rel=0.03)
    assert measured.predicted == pytest.approx(0.68, abs=0.005)


def test_the_published_table_is_shown_beside(ran):
    """All figures of the table, for each of its three states."""
    summary, _, _ = ran(KNOWN, preset="brief")
    rows = {case.name: case.figures for case in summary.cases}

    assert {name: row["throughput"].published for name, row in rows.items()} == {
        "alone": 19.45,
        "connected": 13.21,
        "tuned": 19.45,
    }
    assert rows["connected"]["latency_p95_ms"].published == 614 and rows["alone"]["latency_min_ms"].published == 73


def test_tuned_is_exactly_what_was_published():
    """No option more, none less; each belongs to one group of the ablation or cannot change a load."""
    published = {
        "--disk-flushes=no",
        "--on-io-error=detach",
        "--max-buffers=8000",
        "--max-epoch-size=8000",
        "--sndbuf-size=0",
        "--resync-rate=10M",
        "--al-extents=257",
    }
    groups = [KNOWN.case(name).settings["options"] for name in ("flushing", "network", "activity-log")]
    tuned = KNOWN.case("tuned").settings["options"]

    assert published == {word for words in tuned.values() for word in words}
    assert published - {word for group in groups for words in group.values() for word in words} == {
        "--on-io-error=detach",
        "--resync-rate=10M",
    }


def test_the_full_preset_has_the_published_sizes():
    """Five million rows, a minute, four clients."""
    load: Any = KNOWN.workload(KNOWN.case("alone"), KNOWN.preset("full"))

    assert (load.rows, load.seconds, load.clients) == (5_000_000, 60, 4)


def test_machines_are_as_before_afterwards(ran):
    """Connected, the file's options, disks without limits, whatever the last case was."""
    labs = []
    ran(KNOWN, preset="quick", meanwhile=lambda lab, _: labs.append(lab))
    left = labs[-1].resource

    assert left.connected and left.options == {"node1": set(), "node2": set()}
    assert {spindle.Spindle(disk).limits() for disk in left.disks.values()} == {drbd_state.FAST}


def test_a_load_does_not_meet_what_earlier_ones_have_left(ran, monkeypatch):
    """Pages to be written, an activity log that its options have emptied: both done with while the disks are fast."""
    done, limit = [], spindle.Spindle.limit

    class Commits:
        def __init__(self, server):
            pass

        def commits(self, count):
            done.append("commit")

    def told(disk, limits):
        done.append("fast" if limits == drbd_state.FAST else "slow")
        return limit(disk, limits)

    monkeypatch.setattr(spindle.Spindle, "limit", told)
    monkeypatch.setattr(drbd_cost, "write_pages", lambda _: done.append("pages"))
    monkeypatch.setattr(drbd_cost, "CommitLatency", Commits)
    ran(KNOWN, preset="brief")

    # Both disks are told each time.
    done = [word for word, _ in groupby(done)]
    assert done == ["fast"] + ["pages", "commit", "slow", "fast"] * (len(done) // 4)
    assert len(done) > 4 * 3 * KNOWN.preset("brief").min_rounds


# --- sysbench ---------------------------------------------------------------------------------------------------------


def test_the_loads_summary_is_read_as_the_published_table_counts():
    """Requests are statements that read or write, without BEGIN and COMMIT."""
    found = sysbench.parse(SUMMARY)

    assert (found.commits, found.figures["throughput"]) == (224, round(224 / 15.0034, 3))
    assert found.figures["requests_per_second"] == round((3136 + 896) / 15.0034, 3)
    assert found.figures["latency_avg_ms"] == 267.34 and found.figures["latency_p95_ms"] == 350.33


@pytest.mark.parametrize("text", ["", "FATAL: no table", SUMMARY.replace("224    (", "0    (")])
def test_a_load_that_committed_nothing_is_an_error(text):
    """And not a rate of zero."""
    with pytest.raises(LabError, match="committed nothing"):
        sysbench.parse(text)


# --- sabotage ---------------------------------------------------------------------------------------------------------


def forget_flushes(lab, _load):
    """Let the peer's disk report the flushes' cost without delaying them."""
    lab.resource.disks["node2"].acting["flush_us"] = 0


def speed_up(lab, _load):
    """Remove the disks' limits in the middle of the load."""
    lab.resource.disks["node1"].exec_run(["spindle", "set", "write_us=0"])


def part(lab, _load):
    """Break the link in the middle of the load."""
    lab.resource.connected = False


def part_and_meet(lab, _load):
    """Disconnect the machines in the middle of the load, and make them equal again before its end."""
    lab.resource.told("node2", "disconnect")
    lab.resource.told("node2", "connect")


def meet(lab, _load):
    """Connect the disconnected peer by other means."""
    lab.resource.connected = True


def grow_deaf(lab, _load):
    """Accept options without acting on them."""
    lab.resource.deaf = True


def write_to_the_peer(lab, _load):
    """Write to the disk of the disconnected peer."""
    lab.resource.disks["node2"].serve("write", 1)


def rot(lab, _load):
    """Make the peer differ, unnoticed."""
    lab.resource.rotten_kib = 4


def break_off(lab, _load):
    """Begin comparisons that never end."""
    lab.resource.breaks_off = True


@pytest.mark.parametrize(
    ("trouble", "case", "reason"),
    [
        (forget_flushes, "connected", "take the time that its limits set"),
        (speed_up, "alone", "no other command changed the disk of node1"),
        (part, "connected", "the peer is connected"),
        (part_and_meet, "connected", "the connection changed meanwhile"),
        (write_to_the_peer, "alone", "a peer in standby writes nothing"),
        (meet, "alone", "the peer is in standby"),
        (grow_deaf, "tuned", "DRBD keeps the order of writes by the method of the case"),
        (grow_deaf, "network", "DRBD's options match the case"),
        (grow_deaf, "activity-log", "DRBD's options match the case"),
    ],
)
def test_a_state_that_was_not_as_asked_is_never_judged(ran, trouble, case, reason):
    """UNKNOWN, with what was found instead."""
    preset = "brief" if case in KNOWN.preset("brief").cases else "quick"
    summary, record, _ = ran(KNOWN, preset=preset, meanwhile=trouble)
    doubts = " ".join(record.doubts("mariadb", record.of("mariadb", case)))

    assert reason in doubts
    assert Verdict.UNKNOWN in verdicts(summary).values() and summary.exit_code == 3


@pytest.mark.parametrize("trouble", [rot, break_off])
def test_disks_that_differ_or_were_not_compared_spoil_every_claim(ran, trouble):
    """The comparison of all blocks is part of the run."""
    summary, _, _ = ran(KNOWN, preset="brief", meanwhile=trouble)

    assert set(verdicts(summary).values()) == {Verdict.UNKNOWN}
