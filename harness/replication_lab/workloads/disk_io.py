"""Loads on disks by direct I/O: fio's jobs that read or write blocks, and a file that dd writes in one go."""

import math
import re
from dataclasses import dataclass

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.experiment.measuring import PlainOutcome
from replication_lab.model.lab.storage import DATA
from replication_lab.world import clock
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks.array import Array
from replication_lab.world.docker.lab import Lab

# The lab's names of fio's patterns.
PATTERNS = {
    "random_read": "randread",
    "random_write": "randwrite",
    "sequential_read": "read",
    "sequential_write": "write",
}
BLOCK_KB = 4.096
# Without an offset all sequential jobs would use the same member of a RAID0 at a time.
STEP = "64k"
# Tolerance: what a file system writes by itself while fio runs, and requests that fio has not counted at its end.
OTHERS_SHARE, OTHERS = 0.03, 40
# A run with foreign I/O on the disks is repeated: servers and file systems do housekeeping now and then.
TRIES = 3
IDLE_SECONDS, LONGEST_SECONDS = 0.2, 30


class OthersAtTheDisks(LabError):
    """An error for disks that served requests of other programs, or fewer than fio made."""


class _Side(msgspec.Struct, frozen=True):
    iops: float
    total_ios: int


class _Job(msgspec.Struct, frozen=True):
    """All jobs of a pattern together, since fio reports them as a group."""

    jobname: str
    read: _Side
    write: _Side


class _Output(msgspec.Struct, frozen=True):
    jobs: list[_Job]


@dataclass(frozen=True)
class Fio:
    """`jobs` at once, each over a file of `mib` MiB of its own, one pattern after another.

    A pattern ends after `loops` passes or after `seconds`, whichever comes first.
    """

    node: str
    jobs: int = 16
    mib: int = 8
    loops: int = 5
    seconds: int = 2

    def lay_out(self, lab: Lab) -> None:
        """Write every block of the files once; a block that was never written is read without a disk."""
        self._fio(arrays.array(lab, self.node), "--name=lay_out", "--rw=write", "--bs=1M", "--end_fsync=1")

    def run(self, lab: Lab, seed: int) -> PlainOutcome:
        """Run all patterns; return the IOPS and KB/s of one job, as fio prints them and the published table has them.

        Raise LabError if the disks served other requests than fio's.
        """
        array = arrays.array(lab, self.node)
        array.write_back()
        jobs = clock.try_again(lambda: self._undisturbed(array, seed), OthersAtTheDisks, TRIES)
        requests = sum(job.read.total_ios + job.write.total_ios for job in jobs)
        per_job = {job.jobname: (job.read.iops + job.write.iops) / self.jobs for job in jobs}
        figures = {f"{name}_iops_per_job": round(iops, 3) for name, iops in per_job.items()}
        figures |= {f"{name}_kb_per_job": round(iops * BLOCK_KB, 1) for name, iops in per_job.items()}
        return PlainOutcome(requests, figures)

    def _undisturbed(self, array: Array, seed: int) -> list[_Job]:
        before = clock.wait_until(
            lambda: _served_when_idle(array), f"the disks of {array.node} to be idle", LONGEST_SECONDS
        )
        jobs = self._fio(
            array,
            "--bs=4k",
            f"--loops={self.loops}",
            f"--runtime={self.seconds}",
            f"--randseed={seed}",
            # All patterns in one run: a group of jobs each, which waits for the one before.
            *(
                option
                for name, pattern in PATTERNS.items()
                for option in (f"--name={name}", f"--rw={pattern}", "--stonewall", "--new_group")
            ),
        )
        reads, writes = (now - then for then, now in zip(before, _served(array), strict=True))
        copies = array.storage.members if array.storage.level == "raid1" else 1
        _refuse_others(array.node, "reads", sum(job.read.total_ios for job in jobs), reads)
        _refuse_others(array.node, "writes", sum(job.write.total_ios for job in jobs) * copies, writes)
        return jobs

    def _fio(self, array: Array, *options: str) -> list[_Job]:
        printed = array.in_filesystem(
            "fio", "--filename_format=fio.$jobnum", f"--numjobs={self.jobs}", f"--size={self.mib}M",
            f"--offset_increment={STEP}", "--direct=1", "--group_reporting", "--output-format=json", *options,
        )  # fmt: skip
        # Warnings come before the document.
        return msgspec.json.decode(printed[printed.index("{") :], type=_Output).jobs


def _served_when_idle(array: Array) -> tuple[int, int] | None:
    before = _served(array)
    clock.pause(IDLE_SECONDS)
    return before if before == _served(array) else None


def _served(array: Array) -> tuple[int, int]:
    """Return the reads and writes of all disks together since they started."""
    stats = array.looks().values()
    return sum(one.reads for one in stats), sum(one.writes for one in stats)


def _refuse_others(node: str, what: str, asked: int, served: int) -> None:
    """Raise LabError if the disks served more requests than fio made (another program), or fewer (a cache)."""
    if not math.isclose(asked, served, rel_tol=OTHERS_SHARE, abs_tol=OTHERS):
        raise OthersAtTheDisks(
            f"the disks of {node} served {served} {what}, but fio's pattern needs {asked}",
            "the same number: no other program uses the disks, and no cache answers",
            f"./lab disk check {node}",
        )


FILE = f"{DATA}/.bulk"
# Direct I/O waits for each block: writing a block has to take long compared with a round trip.
BLOCK_MIB = 4
WAYS = {"direct": "oflag=direct", "fsync": "conv=fsync"}
COPIED = re.compile(r"^(\d+) bytes .* copied, ([\d.]+) s", re.M)


@dataclass(frozen=True)
class BulkWrite:
    """A new file of this many MiB on a machine's data directory, in each way; it is removed afterwards."""

    node: str
    mib: int

    def run(self, lab: Lab, _seed: int) -> PlainOutcome:
        """Write the file in each way; return the MB (10^6 bytes) a second. LabError if dd did not write all of it."""
        return PlainOutcome(0, {f"{way}_mb_per_second": self._rate(lab, flag) for way, flag in WAYS.items()})

    def _rate(self, lab: Lab, flag: str) -> float:
        dd = f"dd if=/dev/zero of={FILE} bs={BLOCK_MIB}M count={self.mib // BLOCK_MIB} {flag} 2>&1; rm -f {FILE}"
        return rate(lab.node(self.node).run("guest", "sh", "-c", dd), self.mib << 20)


def rate(said: str, size: int) -> float:
    """Return the MB a second of a copy of `size` bytes; LabError if fewer bytes were copied."""
    copied = COPIED.search(said)
    if not copied or int(copied[1]) != size:
        raise LabError(f"dd printed: {said.strip()}", f"{size} bytes copied", "./lab status")
    return round(size / float(copied[2]) / 1e6, 3)
