"""A file of SQL for a server's client: its lines with those of the files that it reads, and what a lab cannot take."""

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile, beside

# A name without a dot and a slash may be a word of a text.
SOURCE = re.compile(r"[ \t]*(?:source|\\\.)[ \t]+(?P<path>[^\s;]*[./][^\s;]*\w)[ \t;]*", re.IGNORECASE)
DEEPEST = 10
# For the client of MariaDB, which forbids itself commands then. The clients of MySQL end with an error there.
SANDBOX = re.compile(r"/\*M?!999999\\- enable the sandbox mode \*/ ?")
# With one of these a dump would change only one copy.
ON_ONE_COPY = re.compile(
    r"^[ \t]*(?:/\*!\d*\s*)?SET\b[^;'\"]*?\b(?P<name>sql_log_bin|gtid_purged)\s*:?=", re.IGNORECASE | re.MULTILINE
)
# What would change how the lab's nodes replicate, such as mysqldump writes it with --master-data or --dump-slave.
REPLICATES = re.compile(
    r"^[ \t]*(?:/\*!\d*\s*)?(?:CHANGE\s+(?:MASTER|REPLICATION\s+SOURCE)\b.*\bTO\b"
    r"|(?:RESET\s+MASTER|(?:START|STOP|RESET)\s+(?:ALL\s+)?(?:SLAVES?|REPLICAS?|GROUP_REPLICATION))\b[^)\n]*;"
    r"|SET\s+GLOBAL\s+gtid_slave_pos\s*=).*",
    re.IGNORECASE | re.MULTILINE,
)
# Tables that the load cannot reach.
ELSEWHERE = re.compile(
    r"^[ \t]*(?:/\*!\d*\s*)?(?:(?:CREATE|DROP|ALTER)\s+(?:DATABASE|SCHEMA)\b|USE\s+(?!`?lab`?\s*;)`?[\w$-]+`?\s*;).*",
    re.IGNORECASE | re.MULTILINE,
)
# Comments, blanks and single ends of statements, up to the first statement.
BEFORE = re.compile(r"(?:\s|;|--(?=\s|$)[^\n]*|#[^\n]*|/\*(?!M?!).*?\*/|/\*M?!\d*\s*)*", re.DOTALL)
# What the statements, and the commands of a client, that a file may begin with begin with.
FIRST_WORD = re.compile(
    r"(?:ALTER|ANALYZE|BEGIN|CALL|CHANGE|CHECK|CHECKSUM|COMMIT|CREATE|DEALLOCATE|DELETE|DELIMITER|DESC|DESCRIBE|DO|DROP"
    r"|EXECUTE|EXPLAIN|FLUSH|GRANT|HANDLER|INSERT|INSTALL|KILL|LOAD|LOCK|OPTIMIZE|PREPARE|PURGE|RENAME|REPAIR|REPLACE"
    r"|RESET|REVOKE|ROLLBACK|SAVEPOINT|SELECT|SET|SHOW|SOURCE|START|STOP|TABLE|TRUNCATE|UNINSTALL|UNLOCK|UPDATE|USE"
    r"|VALUES|WITH|XA)\b|[(\\]",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class SqlLine:
    """A line, and the place where a file has it, such as "shop.sql line 3"."""

    place: str
    text: str


def lines_of(file: GivenFile) -> list[SqlLine]:
    """Return the lines of a file for a client, with those of the files that it reads in place of `source FILE`.

    Raise LabError for a file without a statement, one that begins with none, and one that names a missing file.
    """
    _refuse_no_statement(file)
    return list(_lines(file, file.name, file.text, 0))


def refuse_for_one_copy(file: GivenFile) -> None:
    """Raise LabError with all lines of a file that would leave rows on one copy only."""
    _refuse(
        file,
        (f"{place}: it sets {found['name']}" for place, found in _found(file, ON_ONE_COPY)),
        "the other copies would lack the rows",
        "a file that leaves sql_log_bin and gtid_purged as they are",
        "mysqldump --set-gtid-purged=OFF …",
    )


def refuse_replication(file: GivenFile) -> None:
    """Raise LabError with all lines of a file that would change how the lab's nodes replicate."""
    _refuse(
        file,
        (f"{place}: `{found[0].strip()[:60]}`" for place, found in _found(file, REPLICATES)),
        "it would change how the lab's nodes replicate",
        "a file without such commands; they may be in comments, or typed (lab sql -e)",
        "mysqldump --source-data=2 …, or --master-data=2 of earlier versions",
    )


def refuse_other_databases(file: GivenFile) -> None:
    """Raise LabError with all lines of a file that would make or use other databases than that of the load."""
    _refuse(
        file,
        (f"{place}: `{found[0].strip()[:60]}`" for place, found in _found(file, ELSEWHERE)),
        "it uses another database than lab",
        "tables in the database lab, which is the default database",
        "mysqldump DATABASE, without --databases",
    )


def _refuse(file: GivenFile, said: Iterable[str], why: str, expected: str, next_step: str) -> None:
    lines = list(said)
    if len(lines) == 1:
        raise LabError(f"{lines[0]}; {why}", expected, next_step)
    if lines:
        raise LabError("\n  ".join([f"{file.name}: {why}:", *lines]), expected, next_step)


def _found(file: GivenFile, pattern: re.Pattern[str]) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield what a pattern finds in a file and in those that it reads, each with its place."""
    for part in (file, *file.beside):
        yield from ((_place(part, found.start()), found) for found in pattern.finditer(part.text))


def _place(file: GivenFile, position: int) -> str:
    return f"{file.name} line {file.text.count(chr(10), 0, position) + 1}"


def _lines(file: GivenFile, name: str, text: str, depth: int) -> Iterator[SqlLine]:
    # Not splitlines: a string may hold other characters that separate lines.
    for number, line in enumerate(text.replace("\r\n", "\n").removesuffix("\n").split("\n"), 1):
        place = f"{name} line {number}"
        named = SOURCE.fullmatch(line)
        if not named:
            yield SqlLine(place, SANDBOX.sub("", line))
            continue
        path = beside(name, named["path"])
        part = next((each for each in file.beside if each.name == path and depth < DEEPEST), None)
        if part is None:
            raise LabError(
                f"{place}: `{line.strip()}` reads a file that is not beside {file.name}",
                "a file in the same folder",
                f"put {posixpath.basename(path)} beside it",
            )
        yield from _lines(file, part.name, part.text, depth + 1)


def _refuse_no_statement(file: GivenFile) -> None:
    """Raise LabError for a file that holds nothing, or begins with what is no SQL: a message of a tool."""
    begins = BEFORE.match(file.text)
    rest = file.text[begins.end() :] if begins else file.text
    if not rest.strip(" \t\r\n;*/"):
        raise LabError(f"{file.name} holds no statement", "statements that end with ;")
    if not FIRST_WORD.match(rest):
        raise LabError(
            f"{_place(file, len(file.text) - len(rest))}: `{rest.splitlines()[0][:60]}` begins with no word of SQL",
            "SQL; a message of the tool that wrote the file is none",
            f"remove the line; 2>errors.txt keeps messages out of {file.name}",
        )
