"""The texts of files that a user gives."""

import gzip
import zlib
from codecs import getincrementaldecoder
from pathlib import Path

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.question.load import LARGEST


def read(path: Path) -> GivenFile:
    """Return the text of a file with its name; decompress it if needed, and leave out a byte order mark."""
    return _text(path, -1)


def read_for_a_record(path: Path) -> GivenFile:
    """Return a text for a record. Raise LabError for a file that is too large, without reading all of it."""
    file = _text(path, LARGEST + 1)
    if len(file.text.encode()) > LARGEST:
        raise LabError(
            f"{path} has more than {LARGEST >> 20} MiB",
            f"at most {LARGEST >> 20} MiB, because the record contains it",
            "make rows by --init: INSERT … SELECT",
        )
    return file


def _text(path: Path, most: int) -> GivenFile:
    """Return the first `most` bytes of a text, or all for -1. A truncated last character is left out."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(most)
        plain = getincrementaldecoder("utf-8-sig")().decode(content, final=len(content) != most)
        return GivenFile(path.name.removesuffix(".gz"), plain)
    except UnicodeDecodeError as error:
        raise LabError(f"{path} is not text: byte {error.start} is not UTF-8", "a text in UTF-8") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise LabError(f"{path} cannot be unpacked: {error}", "a file packed by gzip") from error
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}", "a file", f"ls -l {path.parent}") from error
