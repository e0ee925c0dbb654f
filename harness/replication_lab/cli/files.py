"""Files that the user names, and options of the form NAME=VALUE."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.question.setting import CNF, DISK, NONE, STORAGE, setting
from replication_lab.world import given_texts

SETTING = "NAME=VALUE"


def pairs(option: str, given: tuple[str, ...], example: str = "sync_binlog=1") -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not (separator and name and value):
            raise LabError(f"{option} {text!r} names no value", f"{option} {SETTING}", f"{option} {example}")
        if name in found:
            raise LabError(f"{option} names {name} twice", "each setting once", f"{option} {name}=…")
        found[name] = value
    return found


def _of_nodes(option: str, what: str, given: tuple[str, ...]) -> dict[str, str]:
    """Return the settings of an option's [NODE=]VALUE texts: {WHAT: VALUE} or {NODE.WHAT: VALUE}."""
    found: dict[str, str] = {}
    for text in given:
        node, _, value = text.rpartition("=")
        name = f"{node}.{what}" if node else what
        if not value or name in found:
            raise LabError(
                f"{option} {text!r} names {'a node twice' if value else 'no value'}",
                f"{option} [NODE=]VALUE, each node once",
            )
        found[name] = value
    return found


def settings_of(options: Mapping[str, Any], cnf: dict[str, GivenFile], *short: dict[str, str]) -> dict[str, str]:
    """Return the settings of --set, of the options of nodes, and of options in `short`; add my.cnf files to `cnf`.

    Raise LabError for a setting that several options give.
    """
    of_nodes = [_of_nodes(f"--{each}", each, options[each]) for each in (CNF, STORAGE, DISK)]
    found: dict[str, str] = {}
    for part in (pairs("--set", options["settings"]), *short, *of_nodes):
        if twice := sorted(found.keys() & part.keys()):
            name = twice[0]
            raise LabError(
                f"{name} is given as {found[name]} and as {part[name]}", "one of the two", f"leave out --set {name}=…"
            )
        found |= part
    return {name: named(name, value, cnf) for name, value in found.items()}


def cnf_files(given: tuple[str, ...]) -> dict[str, GivenFile]:
    """Return the files of [NODE=]FILE texts, by setting."""
    return {name: given_texts.read(Path(path)) for name, path in _of_nodes("--cnf", CNF, given).items()}


def named(name: str, value: str, read_before: dict[str, GivenFile]) -> str:
    """Return a setting's value; of a file its name instead of its path, and add the file to `read_before`."""
    if value == NONE or not setting(name).is_file:
        return value
    file = given_texts.read_for_a_record(Path(value))
    if read_before.setdefault(file.name, file) != file:
        raise LabError(f"two files are called {file.name}", "files with names that differ", "rename one of them")
    return file.name
