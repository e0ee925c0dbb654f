"""Locks between a user's processes: one builds an image, starts the engine or changes a lab; others wait or end."""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import IO, Any

from replication_lab.model.core.errors import LabError
from replication_lab.world import clock, folders
from replication_lab.world.files import open_private, private_folder

FOLDER = folders.KEPT / "locks"
# What is held until the process ends.
_kept = ExitStack()
# The locks of labs that this process holds, each with the number of blocks that share it: flock keeps two descriptors
# of one process apart as if they were two processes.
_labs: dict[str, tuple[ExitStack, int]] = {}
_counting = threading.Lock()


class LabTaken(LabError):
    """Another command starts, changes or removes the lab."""


def _opened(name: str) -> IO[Any]:
    return open_private(private_folder(FOLDER) / name, "a+")


@contextmanager
def held(name: str) -> Iterator[None]:
    """Hold the lock of that name within the block; wait while another process holds it. It ends with its process."""
    with _opened(name) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def held_if_free(name: str, doing: str = "") -> Iterator[str | None]:
    """Hold the lock of that name within the block, if it is free; yield None, or a description of its holder.

    `doing` is the command, for others that ask for the lock meanwhile.
    """
    with _opened(name) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            yield file.read() or "another command"
            return
        if not os.fstat(file.fileno()).st_nlink:
            # The last holder has removed the file in the meantime.
            with held_if_free(name, doing) as by:
                yield by
            return
        file.truncate(0)
        file.write(f"`{doing or 'lab'}` (process {os.getpid()}, since {clock.now()[:19]} UTC)")
        file.flush()
        yield None


@contextmanager
def held_or_refused(name: str, taken: LabError) -> Iterator[None]:
    """Hold the lock of that name within the block; raise `taken` if it is held elsewhere."""
    with held_if_free(name) as by:
        if by:
            raise taken
        yield


@contextmanager
def lab_if_free(name: str, doing: str) -> Iterator[str | None]:
    """Hold the name of a lab within the block, if it is free; yield None, or a description of its holder.

    One command at a time starts, changes or removes a lab. Nothing stays of its lock.
    """
    with held_if_free(f"lab-{name}", doing) as by:
        try:
            yield by
        finally:
            if not by:
                (FOLDER / f"lab-{name}").unlink(missing_ok=True)


@contextmanager
def lab_held(name: str, doing: str) -> Iterator[None]:
    """Hold the name of a lab within the block; raise LabTaken, with the command, if another process holds it.

    Blocks of this process, in each other or in several threads, share the lock until the last one ends.
    """
    with _counting:
        held, blocks = _labs.get(name) or (_taken(name, doing), 0)
        _labs[name] = held, blocks + 1
    try:
        yield
    finally:
        with _counting:
            held, blocks = _labs.pop(name)
            if blocks > 1:
                _labs[name] = held, blocks - 1
            else:
                held.close()


def _taken(name: str, doing: str) -> ExitStack:
    """Return what holds the name of a lab until it is closed."""
    with ExitStack() as held:
        if by := held.enter_context(lab_if_free(name, doing)):
            raise LabTaken(f"{name} is in use by {by}", "that command to finish", "./lab status")
        return held.pop_all()


@cache
def keep_shared(name: str) -> None:
    """Hold the lock of that name until this process ends; other processes may hold it in this way at the same time."""
    file = _kept.enter_context(_opened(name))
    fcntl.flock(file, fcntl.LOCK_SH)


def is_free(name: str) -> bool:
    with held_if_free(name) as by:
        return not by
