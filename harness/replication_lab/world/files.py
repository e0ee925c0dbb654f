"""Files that only their owner can read, written whole or line by line."""

import errno
import os
import secrets
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from replication_lab.model.core.errors import LabError, as_lab_error

Kept = TypeVar("Kept")
MIB = 1 << 20
# Bytes of a file's name, on nearly every file system.
LONGEST = 255
# What a write reports if the file system, or the user's share of it, is full.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise LabError for what cannot be written at that path within the block; of a full disk, with what is free."""
    try:
        yield
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> LabError:
    said = f"{path} cannot be written: {error.strerror or error}"
    if error.errno == errno.ENAMETOOLONG:
        return too_long(path)
    if error.errno not in FULL:
        return LabError(said, "an existing folder in which you may write", f"ls -ld {path.parent}")
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    mount = next(each for each in (there.absolute(), *there.absolute().parents) if each.is_mount())
    free, size = shutil.disk_usage(mount).free, shutil.disk_usage(mount).total
    return LabError(
        f"{said}; the file system {mount} has {free / MIB:.1f} of {size / MIB:.1f} MiB free",
        "a file system with free space",
        f"df -h {mount}",
    )


@contextmanager
def reading(path: Path) -> Iterator[IO[bytes]]:
    """Open a file; LabError for what is not a file: a pipe would be waited for without an end."""
    with as_lab_error(OSError, f"{path} cannot be read", "a file to read", f"ls -l {path}"):
        # Before it is opened: that alone waits for a pipe's other end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise LabError(f"{path} is not a regular file", "a file", f"ls -ld {path}")
        opened = path.open("rb")
    with opened:
        yield opened


def too_long(path: str | bytes | Path) -> LabError:
    """Return the error for a path that no file can have."""
    name = max(Path(os.fsdecode(path)).parts, key=len)
    return LabError(
        f"{name[:20]}… has {len(name.encode())} bytes",
        f"the name of a file, of at most {LONGEST} bytes",
        "./lab --help",
    )


def read_own(path: Path) -> bytes | None:
    """Return the content of a file that is this user's alone; None for any other, and for a link."""
    with suppress(OSError), open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return file.read()
    return None


def read_own_as(path: Path, kind: type[Kept]) -> Kept | None:
    """Return what a file of JSON holds that is this user's alone; None for any other file, and for other content."""
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(read_own(path) or b"", type=kind)
    return None


def private_folder(path: Path) -> Path:
    """Make a folder, and those above it, that only its owner can enter; one that exists stays as it is."""
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            with writing(folder):
                folder.mkdir(mode=0o700, exist_ok=True)
    return path


def open_private(path: Path, mode: str, buffering: int = -1) -> IO[Any]:
    """Open a file as `open` does; if it is made here, only its owner can read it, from the first moment on."""
    with writing(path):
        return open(path, mode, buffering, opener=lambda name, flags: os.open(name, flags, 0o600))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; a reader sees the old file or the new one, also on a full disk."""
    private_folder(path.parent)
    with writing(path), replacing(path, open_private) as file:
        file.write(content)


def write_for_user(path: Path, content: bytes) -> None:
    """Write a file that the user asked for, in an existing folder, in the same way; a device is written to."""
    target = path.resolve()
    if target.exists() and not target.is_file():
        with writing(path):
            target.write_bytes(content)
    else:
        with writing(path), replacing(target) as file:
            file.write(content)


@contextmanager
def replacing(path: Path, opened: Callable[[Path, str], IO[Any]] = open) -> Iterator[IO[bytes]]:
    """Yield a new file that replaces `path` at the end; a link that lies in the folder is never written through."""
    # Two threads of a process may write the same file.
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with opened(beside, "xb") as file:
            yield file
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


class LineByLine:
    """A file to which several threads append lines. Of a line that does not fit on the disk no part is left."""

    def __init__(self, path: Path):
        self._path, self._lock = path, threading.Lock()
        self._file = open_private(path, "ab", buffering=0)
        self._size = self._file.tell()

    def write(self, line: bytes, sync: bool = False) -> None:
        """Hand a line to the operating system, with `sync` to the disk; LabError if that is impossible."""
        with self._lock, writing(self._path):
            try:
                left = line
                while left:
                    # On a disk that gets full, a part is written first; the error comes with the next part.
                    left = left[self._file.write(left) :]
                if sync:
                    os.fsync(self._file.fileno())
            except BaseException:
                self._file.truncate(self._size)
                raise
            self._size += len(line)

    def close(self) -> None:
        self._file.close()
