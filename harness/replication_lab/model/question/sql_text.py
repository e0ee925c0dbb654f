"""A load in SQL, or statements that were typed, as statements, each with the number of its first line."""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile

# A command of the command-line client, which the server would not understand. It ends with its line.
DELIMITER = re.compile(r"[ \t]*delimiter[ \t]+(\S+)[ \t]*$", re.IGNORECASE | re.MULTILINE)
# The ends of a statement that the servers' clients know whatever the delimiter is; the first prints columns as lines.
UPRIGHT, CLIENTS_ENDS = "\\G", re.compile(r"\\[Gg]")
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
    return [statement for statement in _Reader(GivenFile("-e", text), last_may_be_open=True).read() if statement]


def parts(file: GivenFile) -> list[list[Statement]]:
    """Return the parts of a file between lines of dashes, each as its statements; empty parts are left out."""
    found: list[list[Statement]] = [[]]
    for statement in _Reader(file, dashes_separate=True).read():
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
    """Reads one file from its beginning to its end."""

    def __init__(self, file: GivenFile, *, dashes_separate: bool = False, last_may_be_open: bool = False):
        self._dashes_separate, self._last_may_be_open = dashes_separate, last_may_be_open
        self._file, self._text = file, file.text.replace("\r\n", "\n").removeprefix("\ufeff")
        self._position, self._line, self._end = 0, 1, ";"
        self._words: list[str] = []
        self._began = 0  # the line of the statement that is being read; 0 between two of them

    def read(self) -> Iterator[Statement | None]:
        """Yield the statements, and None for a line of dashes."""
        while self._position < len(self._text):
            if self._dashes_separate and self._is_at_line_start() and (dashes := self._match(DASHES)):
                self._refuse_unfinished()
                self._take(dashes[0])
                yield None
            elif self._is_at_line_start() and not self._began and (named := self._match(DELIMITER)):
                self._end = named[1]
                self._take(named[0])
            elif self._text.startswith(self._end, self._position):
                self._take(self._end)
                yield from self._finished()
            elif end := self._match(CLIENTS_ENDS):
                self._take(end[0])
                yield from self._finished(upright=end[0] == UPRIGHT)
            else:
                self._add(self._match(_token(self._end[0])))
        if self._last_may_be_open:
            yield from self._finished()
        self._refuse_unfinished()

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return pattern.match(self._text, self._position)

    def _is_at_line_start(self) -> bool:
        return self._position == 0 or self._text[self._position - 1] == "\n"

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
