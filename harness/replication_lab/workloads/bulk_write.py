"""A file written in one go by dd, as in the published test: by direct I/O, or buffered with an fsync at the end."""

import re
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.model.experiment.measuring import PlainOutcome
from replication_lab.model.lab.storage import DATA
from replication_lab.world.docker.lab import Lab

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
