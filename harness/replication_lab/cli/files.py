"""Files that the user names, and options of the form NAME=VALUE."""

from pathlib import Path

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.question.files import CNF, NONE, is_cnf
from replication_lab.world import given_texts

SETTING = "NAME=VALUE"


def pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not (separator and name and value):
            raise LabError(f"{option} {text!r} names no value", f"{option} {SETTING}", f"{option} sync_binlog=1")
        if name in found:
            raise LabError(f"{option} names {name} twice", "each setting once", f"{option} {name}=…")
        found[name] = value
    return found


def of_nodes(option: str, setting: str, given: tuple[str, ...]) -> dict[str, str]:
    """Return the settings of an option's [NODE=]VALUE texts: {SETTING: VALUE} or {NODE.SETTING: VALUE}."""
    found: dict[str, str] = {}
    for text in given:
        node, _, value = text.rpartition("=")
        name = f"{node}.{setting}" if node else setting
        if not value or name in found:
            raise LabError(
                f"{option} {text!r} names {'a node twice' if value else 'no value'}",
                f"{option} [NODE=]VALUE, each node once",
            )
        found[name] = value
    return found


def once(*parts: dict[str, str]) -> dict[str, str]:
    """Return all settings of these parts. Raise LabError for one that several options give."""
    found: dict[str, str] = {}
    for part in parts:
        if twice := sorted(found.keys() & part.keys()):
            name = twice[0]
            raise LabError(
                f"{name} is given as {found[name]} and as {part[name]}", "one of the two", f"leave out --set {name}=…"
            )
        found |= part
    return found


def cnf_files(given: tuple[str, ...]) -> dict[str, GivenFile]:
    """Return the files of [NODE=]FILE texts, by setting."""
    return {setting: given_texts.read(Path(path)) for setting, path in of_nodes("--cnf", CNF, given).items()}


def named(setting: str, values: list[str], read_before: dict[str, GivenFile]) -> list[str]:
    """Return a setting's values, with the name of each file instead of its path; add the files to `read_before`."""
    return [_name(value, read_before) if is_cnf(setting) else value for value in values]


def _name(path: str, read_before: dict[str, GivenFile]) -> str:
    if path == NONE:
        return NONE
    file = given_texts.read_for_a_record(Path(path))
    if read_before.setdefault(file.name, file) != file:
        raise LabError(f"two files are called {file.name}", "files with names that differ", "rename one of them")
    return file.name
