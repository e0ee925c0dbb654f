"""What is saved of a lab that came up in full and is meant to stay: the contents of runs/labs/NAME.json."""

import msgspec

from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.option_file import Option
from replication_lab.world import lab_files
from replication_lab.world.files import read_own, write_whole


class LabState(msgspec.Struct, frozen=True):
    """A lab as it came up; `options` are what each node was started with, in addition to the lab's own options."""

    topology: str
    engine: str
    proofs: list[Proof]
    toxics: dict[str, str]
    options: dict[str, list[Option]] = {}


def saved(lab: str) -> LabState | None:
    """Return what was saved when the lab of this name came up; None if it never did."""
    try:
        return msgspec.json.decode(read_own(lab_files.file_of(lab, lab_files.STATE)) or b"", type=LabState)
    except msgspec.DecodeError:
        return None


def save(lab: str, state: LabState) -> None:
    """Save that the lab of this name came up completely: from now on it does not count as a leftover."""
    write_whole(lab_files.file_of(lab, lab_files.STATE), msgspec.json.format(msgspec.json.encode(state)))
