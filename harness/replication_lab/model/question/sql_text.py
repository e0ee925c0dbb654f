"""SQL of the user, typed or in files that may read others, as statements, each with the number of its first line."""

import functools
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile, beside

# A command of the command-line client, which the server would not understand. It ends with its line.
DELIMITER = re.compile(r"[ \t]*(?:delimiter|\\d)[ \t]+(\S+)[ \t]*$", re.IGNORECASE | re.MULTILINE)
# The ends of a statement that the servers' clients know whatever the delimiter is; the first prints columns as lines.
UPRIGHT, CLIENTS_ENDS = "\\G", re.compile(r"\\[Gg]")
# Another one. A name without a dot and a slash may be a word of a text.
SOURCE = re.compile(r"[ \t]*(?:source|\\\.)[ \t]+(?P<path>[^\s;]*[./][^\s;]*\w)[ \t;]*$", re.IGNORECASE | re.MULTILINE)
DASHES = re.compile(r"[ \t]*--+[ \t]*$", re.MULTILINE)
# Comments that a server reads: version comments and optimizer hints. A dump's sandbox mode is for the client.
READ_BY_SERVERS = re.compile(r"/\*(?:M?!(?!999999)|\+)")
# What a statement that only reads may call, and the words that may stand before a bracket. Anything else may have an
# effect: a stored function, GET_LOCK, SLEEP, MASTER_GTID_WAIT.
HARMLESS = re.compile(
    r"COUNT|SUM|MIN|MAX|AVG|COALESCE|VERSION|UNIX_TIMESTAMP|GTID_SUBSET|LOWER|IN|FROM|JOIN|AND|OR|ON|USING|WHERE",
    re.IGNORECASE,
)
CALLED = re.compile(r"([\w$.`']+)\s*\(")
HAS_EFFECTS = re.compile(r"\b(?:INTO|UPDATE|SHARE|LOCK|PROCEDURE|NEXT|PREVIOUS)\b|:=|/\*|--|\#|;", re.IGNORECASE)
READS = re.compile(r"\s*(?:SHOW|SELECT)\b", re.IGNORECASE)
STRING = re.compile(r"""'(?:[^'\\]++|\\.|'')*+'|"(?:[^"\\]++|\\.|"")*+\"""", re.DOTALL)
NEVER_CLOSED = {"'": "a quote", '"': "a quote", "`": "a quoted name", "/*": "a comment"}


@dataclass(frozen=True)
class Statement:
    """A statement without its end and without comments that servers ignore; `upright` if the end is UPRIGHT."""

    line: int
    sql: str
    upright: bool = False


def typed_statements(text: str) -> list[Statement]:
    """Return the statements that were typed for a server's client, the last of which needs no end."""
    return [statement for statement in _Reader(GivenFile("-e", text)).read() if statement]


def parts(file: GivenFile) -> list[list[Statement]]:
    """Return the parts of a file between lines of dashes, each as its statements; empty parts are left out."""
    found: list[list[Statement]] = [[]]
    for statement in _Reader(file, is_load=True).read():
        if statement is None:
            found.append([])
        else:
            found[-1].append(statement)
    return [part for part in found if part]


def only_reads(sql: str) -> bool:
    """Return whether a statement certainly has no effect on a server; False in any doubt.

    A view may call a function with an effect. So this is for the lab's own statements, whose tables are known.
    """
    bare = STRING.sub("''", sql)
    return (
        bool(READS.match(bare)) and not HAS_EFFECTS.search(bare) and all(map(HARMLESS.fullmatch, CALLED.findall(bare)))
    )


@functools.cache
def _token(first_of_end: str) -> re.Pattern[str]:
    """Return the pattern of the next token, for statements whose delimiter begins with this character."""
    return re.compile(
        r"""(?P<quoted>'(?:[^'\\]++|\\.|'')*+' | "(?:[^"\\]++|\\.|"")*+" | `[^`]*+`)
        | (?P<comment>--(?=\s|\Z)[^\n]*+ | \#[^\n]*+)
        | (?P<block>/\*.*?\*/)
        | (?P<open>['"`] | /\*)
        | (?P<plain>[^'"`\\\#/\n"""
        + re.escape(first_of_end)
        + r"""-]++ | .)""",
        re.VERBOSE | re.DOTALL,
    )


class _Reader:
    """A text that is read as a server's client does; one that `is_load` as transactions between lines of dashes."""

    def __init__(self, file: GivenFile, *, is_load: bool = False):
        self._is_load = is_load
        self._file, self._text = file, file.text.replace("\r\n", "\n").removeprefix("\ufeff")
        self._position, self._line, self._end = 0, 1, ";"
        self._words: list[str] = []
        self.read_files: dict[int, str] = {}  # what `source FILE` names, by line; for a server it is no statement
        self._began = 0  # the line of the statement that is being read; 0 between two of them

    def read(self) -> Iterator[Statement | None]:
        """Yield the statements, and None for a line of dashes."""
        while self._position < len(self._text):
            at_line_start = self._position == 0 or self._text[self._position - 1] == "\n"
            may_command = at_line_start and not self._began
            if self._is_load and at_line_start and (dashes := self._match(DASHES)):
                self._refuse_unfinished()
                self._take(dashes[0])
                yield None
            elif may_command and (named := self._match(DELIMITER)):
                self._end = named[1]
                self._take(named[0])
            elif may_command and not self._is_load and (named := self._match(SOURCE)):
                self.read_files[self._line] = named["path"]
                self._take(named[0])
            elif self._text.startswith(self._end, self._position):
                self._take(self._end)
                yield from self._finished()
            elif end := self._match(CLIENTS_ENDS):
                self._take(end[0])
                yield from self._finished(upright=end[0] == UPRIGHT)
            else:
                self._add(self._match(_token(self._end[0])))
        if not self._is_load:
            # A client ends the last statement itself.
            yield from self._finished()
        self._refuse_unfinished()

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return pattern.match(self._text, self._position)

    def _sql(self) -> str:
        return "".join(self._words).strip()

    def _take(self, text: str) -> None:
        self._position += len(text)
        self._line += text.count("\n")

    def _add(self, token: re.Match[str] | None) -> None:
        assert token, "the last alternative matches any character"
        text, kind = token[0], token.lastgroup
        if kind == "open":
            raise LabError(
                f"{self._file.name} line {self._line}: {NEVER_CLOSED[text]} is never closed", f"a closing {text!r}"
            )
        is_read = kind != "comment" and (kind != "block" or READ_BY_SERVERS.match(text))
        if is_read and text.strip() and not self._began:
            self._began = self._line
        self._words.append(text if is_read else " ")
        self._take(text)

    def _finished(self, upright: bool = False) -> Iterator[Statement]:
        if self._began:
            yield Statement(self._began, self._sql(), upright)
        self._words, self._began = [], 0

    def _refuse_unfinished(self) -> None:
        if self._began:
            raise LabError(
                f"{self._file.name} line {self._began}: the statement `{self._sql()[:60]}` does not end",
                f"{self._end} at the end of each statement",
            )


DEEPEST = 10
# For the client of MariaDB, which forbids itself commands then. The clients of MySQL end with an error there.
SANDBOX = re.compile(r"/\*M?!999999\\- enable the sandbox mode \*/ ?")
VERSION, LOOSE = r"(?:/\*M?!\d*\s*)?", re.IGNORECASE | re.DOTALL


class NotTaken(NamedTuple):
    """How statements begin that a file must not have, why, and what to do.

    A file without `hint` has none, and is not read by statements, which takes a second for 2 MB.
    """

    begins: str
    hint: str
    why: str
    expected: str
    next_step: str


ON_ONE_COPY = NotTaken(
    r"SET\b.*?\b(?P<name>sql_log_bin|gtid_purged)\s*:?=",
    "sql_log_bin|gtid_purged",
    "the other copies would lack the rows",
    "a file that leaves sql_log_bin and gtid_purged as they are",
    "mysqldump --set-gtid-purged=OFF …",
)
# As mysqldump writes them with --master-data or --dump-slave.
REPLICATES = NotTaken(
    r"(?:CHANGE\s+(?:MASTER|REPLICATION)|RESET\s+(?:MASTER|BINARY\s+LOGS)"
    r"|(?:START|STOP|RESET)\s+(?:ALL\s+)?(?:SLAVES?|REPLICAS?|GROUP_REPLICATION)"
    r"|SET\s+(?:GLOBAL\s+|@@GLOBAL\s*\.\s*)gtid_slave_pos)\b",
    r"gtid_slave_pos|\b(?:CHANGE|RESET|START|STOP)(?:\s|ALL\b|/\*.*?\*/)+(?:MASTER|BIN|REPL|SLAVE|GROUP_)",
    "it would change how the lab's nodes replicate",
    "a file without such statements; they may be in comments, or typed (lab sql -e)",
    "mysqldump --source-data=2 …, or --master-data=2 of earlier versions",
)
ELSEWHERE = NotTaken(
    r"(?:(?:CREATE|DROP|ALTER)\s+(?:DATABASE|SCHEMA)\b|USE\s+(?!`?lab`?\s*(?:\n|$))[`\w])",
    r"\b(?:DATABASE|SCHEMA|USE)\b",
    "it uses another database than lab",
    "tables in the database lab, which is the default database",
    "mysqldump DATABASE, without --databases",
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


def refuse(file: GivenFile, *kinds: NotTaken) -> None:
    """Raise LabError with all statements of a file that it must not have."""
    for kind in kinds:
        found = [
            f"{place}: {f'it sets {name}' if (name := match.groupdict().get('name')) else f'`{sql}`'}"
            for place, sql, match in _found(file, kind)
        ]
        if len(found) == 1:
            raise LabError(f"{found[0]}; {kind.why}", kind.expected, kind.next_step)
        if found:
            raise LabError("\n  ".join([f"{file.name}: {kind.why}:", *found]), kind.expected, kind.next_step)


def _found(file: GivenFile, kind: NotTaken) -> Iterator[tuple[str, str, re.Match[str]]]:
    """Yield the place and the beginning of each statement that matches, as the client would read the file.

    Texts in strings, comments and the programs of routines and triggers are no statements.
    """
    if not any(re.search(kind.hint, part.text, LOOSE) for part in (file, *file.beside)):
        return
    lines = list(_lines(file, file.name, file.text, 0))
    sent = GivenFile(file.name, "\n".join(line.text for line in lines))
    for statement in _Reader(sent).read():
        if statement and (found := re.match(VERSION + kind.begins, STRING.sub("''", statement.sql), LOOSE)):
            yield lines[statement.line - 1].place, statement.sql[:60], found


def _lines(file: GivenFile, name: str, text: str, depth: int) -> Iterator[SqlLine]:
    text = text.replace("\r\n", "\n").removesuffix("\n")
    reader = _Reader(GivenFile(name, text))
    if SOURCE.search(text):
        list(reader.read())
    # Not splitlines: a string may hold other characters that separate lines.
    for number, line in enumerate(text.split("\n"), 1):
        place, named = f"{name} line {number}", reader.read_files.get(number)
        if not named:
            yield SqlLine(place, SANDBOX.sub("", line))
            continue
        path = beside(name, named)
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
        line = file.text.count("\n", 0, len(file.text) - len(rest)) + 1
        raise LabError(
            f"{file.name} line {line}: `{rest.splitlines()[0][:60]}` begins with no word of SQL",
            "SQL; a message of the tool that wrote the file is none",
            f"remove the line; 2>errors.txt keeps messages out of {file.name}",
        )
