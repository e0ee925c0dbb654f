"""The texts of files that a user gives, with the files that they read from their own folder."""

import gzip
import os
import posixpath
import re
import shlex
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from pathlib import Path

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile, beside
from replication_lab.model.question.load import LARGEST

# How a file names another one: a my.cnf file, SQL for a server's client, a script for sysbench.
INCLUDED = re.compile(r"^[ \t]*!include(?:dir)?[ \t]+(.*\S)", re.MULTILINE)
NAMED = {
    ".sql": re.compile(r"^[ \t]*(?:source|\\\.)[ \t]+([^\s;]+)", re.MULTILINE | re.IGNORECASE),
    ".lua": re.compile(r"""\b(?:require|dofile)\b[ \t]*\(?[ \t]*["']([\w./-]+)["']"""),
}


# DATABASE-schema-create.sql, DATABASE.TABLE-schema.sql, DATABASE.TABLE.00000.sql, DATABASE-schema-post.sql and others.
MYDUMPED = re.compile(r"([^.]+?)(?:-schema-(?:create|post|triggers)|\..+)\.sql(?:\.gz)?$")
OPTION_FILES, UTF_16 = (".cnf", ".ini"), (b"\xff\xfe", b"\xfe\xff")
# What mydumper writes besides SQL, which holds no row.
NO_ROWS = re.compile(r"metadata.*|.*-metadata|.*-checksum")
KINDS = ("-schema-create", "-schema", "-schema-sequence", "", "-schema-view", "-schema-triggers", "-schema-post")


def read(path: Path) -> GivenFile:
    """Return the text of a file with its name; decompress it if needed, and leave out a byte order mark.

    With it come the files in its folder that it includes, as far as they are there.
    """
    return _with_others(path, -1)


def read_for_a_record(path: Path) -> GivenFile:
    """Return a text for a record. Raise LabError for a file that is too large, without reading all of it."""
    file = _with_others(path, LARGEST + 1)
    if sum(len(each.text.encode()) for each in (file, *file.beside)) > LARGEST:
        raise LabError(
            f"{path} has more than {LARGEST >> 20} MiB",
            f"at most {LARGEST >> 20} MiB, because the record contains it",
            "make rows by --init: INSERT … SELECT",
        )
    return file


def _with_others(path: Path, most: int) -> GivenFile:
    # os.path's answer for a name that is too long is no error.
    if os.path.isdir(path) and (parts := [part for part in path.iterdir() if MYDUMPED.match(part.name)]):
        _refuse_unread(path, parts)
        # A record's statements have a default database, and use no other.
        return _of_mydumper(path.name, [_text(part, LARGEST + 1) for part in parts], moves=most >= 0)
    file = _text(path, most)
    others: dict[str, GivenFile] = {}
    todo = [file]
    while todo:
        one = todo.pop()
        for other in _named_in(one, path.parent):
            if other.name not in others:
                others[other.name] = other
                todo.append(other)
    return GivenFile(file.name, file.text, tuple(others.values()))


def _refuse_unread(folder: Path, read: Iterable[Path]) -> None:
    """Raise LabError for files of a folder that would be left out: rows could be in them."""
    names = {part.name for part in folder.iterdir()} - {part.name for part in read}
    if left := sorted(name for name in names if not NO_ROWS.fullmatch(name)):
        others = f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise LabError(
            f"{folder} has {left[0]}{others}, which would not be read",
            "a folder of mydumper with .sql and .sql.gz files only",
            "mydumper without --load-data and --csv, and with --compress=GZIP; or unpack the files",
        )


def _of_mydumper(name: str, parts: Iterable[GivenFile], *, moves: bool) -> GivenFile:
    """Return a script that reads the files of a folder that mydumper wrote, in the order in which they are needed.

    With `moves` the tables of an only database come into the default database.
    """
    files = sorted(parts, key=lambda file: (_rank(file), file.name))
    databases = {file.name: found[1] for file in files if (found := MYDUMPED.match(file.name))}
    if moves and len({*databases.values()}) == 1:
        files, databases = [file for file in files if _rank(file)], {}
    lines, database = list[str](), ""
    for file in files:
        if _rank(file) and databases.get(file.name, database) != database:
            database = databases[file.name]
            lines += [f"CREATE DATABASE IF NOT EXISTS `{database}`;", f"USE `{database}`;"]
        lines.append(f"source {file.name}")
    return GivenFile(f"{name}.sql", "\n".join(lines), tuple(files))


def _rank(file: GivenFile) -> int:
    """Return when a file of mydumper is needed: databases, tables, rows, and then what refers to tables."""
    return KINDS.index(next((kind for kind in KINDS if kind and file.name.endswith(f"{kind}.sql")), ""))


def _named_in(file: GivenFile, folder: Path) -> Iterator[GivenFile]:
    """Yield the files that a file names and that are in the folder; of a folder itself, what it contains."""
    kind = posixpath.splitext(file.name)[1]
    for written in NAMED.get(kind, INCLUDED).findall(file.text):
        is_module = kind == ".lua" and not written.endswith(kind)
        name = beside(file.name, f"{written.replace('.', '/')}{kind}" if is_module else written)
        found = folder / name
        if name.startswith(".."):
            continue
        if found.is_dir():
            yield GivenFile(f"{name}/", "")
            for each in sorted(found.glob("*.cnf")):
                yield GivenFile(f"{name}/{each.name}", _text(each, LARGEST + 1).text)
        elif found.is_file():
            yield GivenFile(name, _text(found, LARGEST + 1).text)


def _text(path: Path, most: int) -> GivenFile:
    """Return the first `most` bytes of a text, or all for -1. A truncated last character is left out."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(most)
        name = path.name.removesuffix(".gz")
        # A server reads no comment of its option file, whatever its character set; other lines are told (option_file).
        errors = "replace" if posixpath.splitext(name)[1] in OPTION_FILES else "strict"
        if content.startswith(UTF_16):
            content.decode("ascii")
        plain = getincrementaldecoder("utf-8-sig")(errors).decode(content, final=len(content) != most)
        return GivenFile(name, plain)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found, charset = f"byte {error.start}, in line {line}, is not UTF-8", "latin1"
        if content.startswith(UTF_16):
            found, charset = "it is UTF-16, which Windows' PowerShell writes", "UTF-16"
        raise LabError(
            f"{path} is not text: {found}",
            "a text in UTF-8; of a dump, mysqldump --hex-blob writes bytes as text",
            f"iconv -f {charset} -t UTF-8 {shlex.quote(str(path))} >NEW",
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise LabError(f"{path} cannot be unpacked: {error}", "a file packed by gzip") from error
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}", "a file", f"ls -l {path.parent}") from error
