"""A lock between a user's processes: one builds an image, or starts the engine, while the others wait."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from replication_lab.model.errors import LabError
from replication_lab.world import places
from replication_lab.world.files import open_private, private_folder

FOLDER = places.KEPT / "locks"


@contextmanager
def held(name: str) -> Iterator[None]:
    """Hold the lock of that name within the block; wait while another process holds it. It ends with its process."""
    with open_private(private_folder(FOLDER) / name, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def held_or_refused(name: str, taken: LabError) -> Iterator[None]:
    """Hold the lock of that name within the block; raise `taken` if it is held elsewhere."""
    with open_private(private_folder(FOLDER) / name, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise taken from None
        yield
