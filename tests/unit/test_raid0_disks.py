"""Does raid0_disks see the law in disks that keep it, and doubt those that do not?"""

from typing import Any

import pytest
from replication_lab import experiments
from replication_lab.model.core.verdict import Verdict
from replication_lab.workloads.disk_io import PATTERNS

KNOWN = experiments.load("raid0_disks")


def test_the_law_holds_in_the_model(undisturbed):
    """RAID0 is its members together, RAID1 writes as one of them; every claim comes out as expected."""
    summary, _ = undisturbed(KNOWN)

    assert {claim.verdict for claim in summary.claims} == {Verdict.HOLDS}
    assert summary.exit_code == 0


def test_the_published_table_is_shown_beside(undisturbed):
    """Published, predicted and measured stand in one row; the record says by what the arrays were made."""
    summary, record = undisturbed(KNOWN)
    row = next(case for case in summary.cases if case.name == "cloud-raid0").figures["random_write_iops_per_job"]

    assert (row.published, row.predicted) == (499, pytest.approx(2 * 399 / 17))
    assert row.value == pytest.approx(row.predicted, rel=0.02)
    assert record.lab("mariadb").settings["storage raid0"].endswith("btrfs on loop devices, not md")


def test_every_pattern_of_the_published_table_has_its_ratio():
    """Four patterns, four published ratios of RAID0 over one disk."""
    published = {claim: data.published for claim, data in KNOWN.data.claims.items()}

    assert published == {
        f"cloud-raid0-{pattern.replace('_', '-')}": ratio
        for pattern, ratio in zip(PATTERNS, (1.00, 1.45, 1.03, 1.25), strict=True)
    }


def test_the_full_preset_has_the_published_sizes():
    """16 jobs of 100 MiB each, five loops."""
    fio: Any = KNOWN.workload(KNOWN.case("cloud-raid0"), KNOWN.preset("full"))

    assert (fio.jobs, fio.mib, fio.loops) == (16, 100, 5)


def test_disks_have_their_own_limits_again_afterwards(ran):
    """Whatever happened in the load, each disk is what the topology asks for."""
    labs = []
    ran(KNOWN, preset="quick", meanwhile=lambda lab, _: labs.append(lab))
    found = {
        (array.storage.disk, disk.settings["write_us"]) for array in labs[-1].arrays.values() for disk in array.disks
    }

    assert found == {("sata-7200-tenth", round(1e6 / 410))}


# --- sabotage ---------------------------------------------------------------------------------------------------------


def fall_asleep(lab, _load):
    """Let the first disk of the RAID0 accept limits without acting on them from now on."""
    lab.arrays["raid0"].disks[0].asleep = True


def speed_up(lab, _load):
    """Remove the disks' limits in the middle of the load."""
    for disk in lab.arrays["raid0"].disks:
        disk.exec_run(["spindle", "set", "write_us=0"])


def fill_up(lab, _load):
    """Fill the file system with another file, so that fio ends with an error."""
    array = lab.arrays["raid0"]
    array.room, array.others = 4096, [5000] * 100


def share_the_disks(lab, _load):
    """Let a server write all the time while fio runs."""
    lab.arrays["raid0"].others = [5000] * 100


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (fall_asleep, "keeps its limits"),
        (speed_up, "no other command changed the disks of raid0"),
        (share_the_disks, "the disks of raid0 served"),
        (fill_up, "raid0's disks are full: 4 KiB are free"),
    ],
)
def test_disks_that_are_not_as_asked_are_never_judged(ran, trouble, reason):
    """A limit that did not act, that was removed, or a disk that others used: UNKNOWN with the figures."""
    summary, _, _ = ran(KNOWN, preset="quick", meanwhile=trouble)
    doubted = [claim for claim in summary.claims if "raid0" in claim.id and claim.verdict is Verdict.UNKNOWN]

    assert doubted and reason in doubted[0].reason
    assert summary.exit_code == 3


def test_a_pattern_that_somebody_disturbed_once_is_run_again(ran):
    """A commit of the file system in the wrong moment costs a second, not the verdict."""

    def disturb(lab, _load):
        lab.arrays["raid0"].others = [5000]

    summary, _, _ = ran(KNOWN, preset="quick", meanwhile=disturb)

    assert summary.exit_code == 0


def test_a_replica_that_was_stopped_runs_again_afterwards(ran):
    """The servers are idle during fio's load, and replicate before and after."""
    labs = []
    ran(KNOWN, preset="quick", meanwhile=lambda lab, _: labs.append((lab, lab.node("raid0").server().runs)))

    assert not any(ran_ for _, ran_ in labs)
    assert all(labs[-1][0].node(node).server().runs for node in ("single", "raid1", "raid0"))
