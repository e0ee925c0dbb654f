"""Does drbd_bulk see the link in what is bound by it, and doubt bytes that did not reach the peer?"""

import pytest
from replication_lab import experiments
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.verdict import Verdict
from replication_lab.workloads.disk_io import rate

KNOWN = experiments.load("drbd_bulk")
SAID = "64+0 records in\n64+0 records out\n67108864 bytes (67 MB, 64 MiB) copied, 5.4 s, 12.4 MB/s\n"


def verdicts(summary):
    return {claim.id: claim.verdict for claim in summary.claims}


def test_the_narrow_link_is_what_bounds(ran):
    """Every claim holds where the slower of disk and link decides."""
    summary, _, _ = ran(KNOWN, preset="quick")

    assert {Verdict.HOLDS} == {verdict for claim, verdict in verdicts(summary).items() if "faster" in claim}
    row = next(case for case in summary.cases if case.name == "narrow").figures["direct_mb_per_second"]
    assert (row.published, row.predicted) == (12.6, 12.5)


def test_dds_own_figure_is_taken():
    """10^6 bytes a MB."""
    assert rate(SAID, 64 << 20) == pytest.approx(67.108864 / 5.4, abs=0.001)


@pytest.mark.parametrize("said", ["", "dd: No space left on device", SAID.replace("67108864", "1048576")])
def test_a_file_that_was_not_written_whole_is_an_error(said):
    """A full disk is no fast disk."""
    with pytest.raises(LabError, match="dd printed"):
        rate(said, 64 << 20)


# --- sabotage ---------------------------------------------------------------------------------------------------------


def part(lab, _load):
    """Disconnect the peer in the middle of the load."""
    lab.resource.connected = False


def write_elsewhere(lab, _load):
    """Write to the disconnected peer all the same."""
    lab.resource.written_kib["node2"] += 100


def take_toxics_off(lab, _load):
    """Remove the links' toxics as another user would."""
    for link in lab.topology.links:
        running = lab.link(link.name)
        for body in running.toxics():
            running.remove(body.name)


@pytest.mark.parametrize(
    ("trouble", "case", "reason"),
    [
        (part, "connected", "the peer wrote what the primary wrote"),
        (write_elsewhere, "alone", "the peer wrote nothing"),
        (take_toxics_off, "narrow", "slow-100mbit"),
    ],
)
def test_bytes_that_went_elsewhere_are_never_judged(ran, trouble, case, reason):
    """UNKNOWN, with what was found instead."""
    summary, record, _ = ran(KNOWN, preset="quick", meanwhile=trouble)

    assert reason in " ".join(record.doubts("mariadb", record.of("mariadb", case)))
    assert Verdict.UNKNOWN in verdicts(summary).values()
