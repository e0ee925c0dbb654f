"""The user's my.cnf file, read as a server reads it, with what else a node is started with; errors name its lines."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile, beside
from replication_lab.model.lab.reserved_options import refuse_reserved
from replication_lab.model.lab.server_version import Version

# The groups of all versions of the servers; groups_of has those of one version.
GROUP = re.compile(r"(?:mysqld|mariadbd?)(?:-\d+(?:\.\d+)?)?|server|mysql_cluster|client-server|galera")
INCLUDE = re.compile(r"!include(?P<folder>dir)?\s+(?P<path>.*\S)\s*")
DEEPEST = 10
OPTION = re.compile(r"(?P<name>[A-Za-z][\w.-]*)\s*(?:=\s*(?P<value>.*))?", re.DOTALL)
# A # begins a comment in the middle of a line, except in quotes; with an open quote nothing is a comment.
COMMENT = re.compile(r"""((?:[^#'"]|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")*)#.*""")
QUOTED = re.compile(r"""(['"])(.*)\1""", re.DOTALL)
CLOSED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "s": " ", "\\": "\\", '"': '"', "'": "'"}
ESCAPED = re.compile(r"\\(.)")
# What stands for bytes that are no UTF-8.
NOT_UTF_8 = "\ufffd"
# A server ignores an option with this prefix if it does not know it.
LOOSE = "loose_"
# The prefixes by which an option is switched off and on; "0" as its value means the opposite.
SWITCHES = {"skip_": ("OFF", "ON"), "disable_": ("OFF", "ON"), "enable_": ("ON", "OFF")}
# The variables whose own names begin like that.
NAMED_LIKE_SWITCHES = (
    "skip_external_locking",
    "skip_grant_tables",
    "skip_name_resolve",
    "skip_networking",
    "skip_parallel_replication",
    "skip_replica_start",
    "skip_replication",
    "skip_show_database",
    "skip_slave_start",
)


@dataclass(frozen=True)
class Option:
    """An option that a server is started with; `place` is where a file has it, such as "a.cnf line 3"."""

    name: str
    value: str
    place: str = ""


@dataclass(frozen=True)
class _Line:
    """A line of a file or of one that it includes, and the group that it is in; empty before the first group."""

    text: str
    group: str
    place: str


def groups_of(version: Version) -> list[str]:
    """Return the groups that a server of a version reads."""
    major, minor = version.numbers[:2]
    number = f"{major}.{minor}"
    if version.family != "mariadb":
        return ["mysql_cluster", "mysqld", "server", f"mysqld-{number}"]
    names = ("mysqld", "mariadb", "mariadbd")
    own = [f"{name}-{each}" for name in names for each in (number, major)]
    return [*names, *own, "server", "client-server", "galera"]


def options_of(file: GivenFile, version: Version | None = None) -> list[Option]:
    """Return the options of a file that a server of this version reads; of all versions if none is given.

    Of an option that is repeated the last one counts, and its place names the one before. Raise LabError with all lines
    that a server of the lab must not get, each with what to do.
    """
    read = None if version is None else groups_of(version)
    found: dict[str, Option] = {}
    refused: list[LabError] = []
    others: dict[str, None] = {}
    for line in _lines(file, file.name, file.text):
        if line.group and not (GROUP.fullmatch(line.group) if read is None else line.group in read):
            others[f"[{line.group}]"] = None
            continue
        try:
            option = _option(line)
        except LabError as error:
            refused.append(error)
            continue
        if option:
            if before := found.pop(option.name, None):
                where = before.place.partition(",")[0]
                option = replace(option, place=f"{option.place}, not {before.value} of {where}")
            found[option.name] = option
    if refused:
        raise refused[0] if len(refused) == 1 else _refused(file, refused)
    if not found:
        only = f"; it has {', '.join(others)}" if others else ""
        groups = f"[mysqld], or another of {', '.join(read)}," if read else "[mysqld]"
        raise LabError(
            f"{file.name} has no option{f' for {version}' if version else ''}{only}",
            f"{groups} and lines such as innodb_flush_method = O_DIRECT",
        )
    return list(found.values())


def flat_text(file: GivenFile) -> str:
    """Return the text of a file with those that it includes in place of the lines that include them."""
    if not file.beside:
        return file.text
    return "".join(f"{line.text}\n" for line in _lines(file, file.name, file.text))


def _lines(file: GivenFile, name: str, text: str, depth: int = 0) -> Iterator[_Line]:
    """Yield the lines of a file, and in place of !include those of the included files."""
    group = ""
    # Not splitlines: other characters that separate lines are part of a line for a server.
    for number, raw in enumerate(text.split("\n"), 1):
        place, line = f"{name} line {number}", raw.strip()
        if line.startswith("[") and "]" in line:
            # A blank before the name is part of it for a server, and capitals are not.
            group = line[1:].partition("]")[0].rstrip().lower()
        included = _included(file, name, line) if depth < DEEPEST else []
        for part in included:
            yield from _lines(file, part.name, part.text, depth + 1)
        if included and group:
            # The group of the including file goes on.
            yield _Line(f"[{group}]", group, place)
        if not included:
            yield _Line(raw, group, place)


def _included(file: GivenFile, name: str, line: str) -> list[GivenFile]:
    """Return the files that a line includes; none if it includes nothing, or what is not beside the file."""
    found = INCLUDE.fullmatch(line)
    if not found:
        return []
    path = beside(name, found["path"])
    if not found["folder"]:
        return [part for part in file.beside if part.name == path]
    # A folder is there under its own name as well, since it may have no file.
    parts = [part for part in file.beside if posixpath.dirname(part.name) == path and part.name.endswith((".cnf", "/"))]
    return sorted(parts, key=lambda part: part.name)


def _refused(file: GivenFile, refused: Iterable[LabError]) -> LabError:
    said = [f"{error.found}; {error.next_step or f'expected: {error.expected}'}" for error in refused]
    return LabError(
        "\n  ".join([f"{file.name} has {len(said)} lines that are not for the lab's servers:", *said]),
        "options of a server that the lab does not set itself",
        "change these lines in a copy of the file",
    )


def _option(line: _Line) -> Option | None:
    """Return the option of a line; None for a line without one."""
    text = line.text.strip()
    if not text or text[0] in "#;" or (text[0] == "[" and "]" in text):
        return None
    if text[0] == "!":
        path = found["path"] if (found := INCLUDE.fullmatch(text)) else text
        raise LabError(
            f"{line.place}: {text!r} includes what is not beside the file",
            "a file, or a folder with files *.cnf, in the same folder",
            f"put {posixpath.basename(path.rstrip('/'))} beside it, or remove the line from a copy of the file",
        )
    if text[0] == "[":
        raise LabError(f"{line.place}: {text!r} is not a group", "[NAME]", f"write {text}]")
    if not line.group:
        raise LabError(f"{line.place}: {text!r} is in no group", "a line [mysqld] before it", "write [mysqld] above it")
    if commented := COMMENT.fullmatch(text):
        text = commented[1].strip()
    if NOT_UTF_8 in text:
        raise LabError(f"{line.place}: {text!r} is not UTF-8", "UTF-8, except in comments", "iconv -f latin1 -t UTF-8")
    found = OPTION.fullmatch(text)
    if not found:
        raise LabError(
            f"{line.place}: {text!r} is not an option",
            "NAME = VALUE, or NAME alone for a switch that is on",
            "correct or remove it",
        )
    name, value = _resolved(found["name"], found["value"], line.place)
    refuse_reserved(name, line.place)
    return Option(name, value, line.place)


def _resolved(written: str, value: str | None, place: str) -> tuple[str, str]:
    """Return the name of the variable that an option sets, and its value."""
    name = written.replace("-", "_").lower().removeprefix(LOOSE)
    if name.startswith("maximum_"):
        raise LabError(
            f"{place}: {written} bounds the values of sessions, which cannot be read from a server",
            f"{name.removeprefix('maximum_')} itself",
            "remove it from a copy of the file",
        )
    plain = None if value is None else _plain(value, place)
    prefix = next((each for each in SWITCHES if name.startswith(each) and name not in NAMED_LIKE_SWITCHES), "")
    if prefix:
        usual, opposite = SWITCHES[prefix]
        return name.removeprefix(prefix), opposite if plain == "0" else usual
    return name, "ON" if plain is None else plain


def _plain(value: str, place: str) -> str:
    """Return a value without its quotes, and with the characters that escapes stand for."""
    value = value.strip()
    if value[:1] in ("'", '"') and not CLOSED.match(value):
        raise LabError(f"{place}: the quote in {value!r} is never closed", f"a closing {value[0]}", f"add {value[0]}")
    if quoted := QUOTED.fullmatch(value):
        value = quoted[2]
    return ESCAPED.sub(lambda found: ESCAPES.get(found[1], found[0]), value)


def refuse_both(setting: str, file: GivenFile, variables: Iterable[str]) -> None:
    """Raise LabError for a variable that a file of the same node sets as well; both settings may begin with "NODE."."""
    node = setting.rpartition(".")[0]
    options = {option.name: option for option in options_of(file)}
    for variable in variables:
        its_node, _, name = variable.rpartition(".")
        if name in options and (not node or not its_node or node == its_node):
            raise LabError(
                f"{variable} is set by an option and by {options[name].place}",
                "one of the two",
                f"leave {name} out of {file.name}",
            )


UNKNOWN = re.compile(r"unknown (?:variable|option) '(?:--)?([\w-]+)")
# InnoDB of MySQL 5.5 writes its errors without a level.
ERROR = re.compile(r"\[ERROR\] (.*)|(InnoDB: .*(?:error|failed|annot).*)")
# What follows from another error, and names no cause.
FOLLOWS = re.compile(
    r"Aborting|Generic error|init function returned error|registration as a STORAGE ENGINE failed"
    r"|Unknown/unsupported storage engine|Failed to initialize DD|Data Dictionary initialization failed"
)
ABOUT = re.compile(r"(?:\[[\w-]+\] )+")
# Words of options' names that say nothing of what the option is about.
COMMON = {"innodb", "size", "max", "file", "log", "server"}
TELLING = 5
# How many causes are told.
CAUSES = 3


def unknown_in(errors: Iterable[str]) -> list[str]:
    """Return the variables that a server did not know, by the errors in its log."""
    return [name.replace("-", "_").lower() for error in errors for name in UNKNOWN.findall(error)]


def causes(log: str) -> list[str]:
    """Return the last errors of a server's log without those that only follow from others; else its last line.

    Galera's errors (WSREP) are left out if there are others: its library logs some after the error that ended the
    server.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    found = [ABOUT.sub("", each[1] or each[2]) for each in map(ERROR.search, lines) if each]
    errors = [error for error in found if not FOLLOWS.search(error)] or [each for each in found if each != "Aborting"]
    own = [error for error in errors if not error.startswith("WSREP:")]
    return own[-CAUSES:] or errors[-CAUSES:] or lines[-1:]


def named_in(text: str, options: Iterable[Option]) -> list[Option]:
    """Return the options whose names a server's message has, in either spelling."""
    words = {word.replace("-", "_").lower() for word in re.findall(r"[A-Za-z][\w.-]*", text)}
    return [option for option in options if option.name in words]


def suspected(errors: Sequence[str], options: Sequence[Option]) -> list[Option]:
    """Return the options that the errors of a server are about: by their names, else by the words of these."""
    text = "\n".join(errors)
    words = set(re.findall(r"[a-z0-9]+", text.lower()))
    return named_in(text, options) or [option for option in options if _is_about(option, text, words)]


def _is_about(option: Option, text: str, words: set[str]) -> bool:
    told = set(option.name.split("_")) - COMMON
    by_name = told <= words and len("".join(told)) >= TELLING
    return by_name or (len(option.value) >= TELLING and option.value in text)


@dataclass(frozen=True)
class StartOptions:
    """The options that a node is started with: the user's file, and variables that cannot be changed at run time."""

    file: GivenFile | None = None
    variables: Mapping[str, str] = field(default_factory=dict)

    def options(self, version: Version | None = None) -> list[Option]:
        """Return all options of a server of this version, each of which can be read from it."""
        given = options_of(self.file, version) if self.file else []
        return [*given, *(Option(name, value) for name, value in sorted(self.variables.items()))]

    def refuse_reserved(self) -> None:
        """Raise LabError for an option that the lab sets itself."""
        for option in self.options():
            refuse_reserved(option.name, option.place)

    @property
    def text(self) -> str:
        """Return the contents of the node's option file; empty if it needs no options besides the lab's."""
        lines = [f"{name} = {value}" for name, value in sorted(self.variables.items())]
        own = "\n".join(["[mysqld]", *lines, ""]) if lines else ""
        given = flat_text(self.file).rstrip("\n") + "\n" if self.file else ""
        return given + own
