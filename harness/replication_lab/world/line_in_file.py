"""The line of a YAML or JSON text that an error is about."""

import re
from collections.abc import Iterator

import yaml

from replication_lab.model.core.errors import LabError

# What msgspec and PyYAML say of the place.
PATH = re.compile(r"at `\$([^`]*)`")
STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
UNKNOWN_KEY = re.compile(r"unknown field `([^`]*)`")
MARK, BYTE = re.compile(r"line (\d+)"), re.compile(r"\(byte (\d+)\)")
QUOTED = re.compile(r"['`]([^'`]+)['`]")


def line_of(text: str, error: str) -> int:
    """Return the line of `text`, from 1, that an error message is about; 1 if the message names no place in it.

    The message names a path (`$.steps[0].seconds`), a line, a byte, or in quotes a word of the text.
    """
    if path := PATH.search(error):
        key = UNKNOWN_KEY.search(error)
        return _line_at(text, [*_steps(path[1]), *([key[1]] if key else [])])
    if mark := MARK.search(error):
        return int(mark[1])
    if byte := BYTE.search(error):
        return text.encode()[: int(byte[1])].count(b"\n") + 1
    if key := UNKNOWN_KEY.search(error):
        return _line_at(text, [key[1]])
    return next(_lines_with(text, QUOTED.findall(error)), 1)


def placed(error: LabError, file: str, text: str) -> LabError:
    """Return the error with the file and the line that it is about, where it names the file or else in front."""
    place = f"{file}:{line_of(text, error.found)}"
    found = error.found.replace(file, place, 1) if file in error.found else f"{place}: {error.found}"
    return LabError(found, error.expected, error.next_step)


def _steps(path: str) -> list[str | int]:
    return [int(number) if number else key for key, number in STEP.findall(path)]


def _line_at(text: str, steps: list[str | int]) -> int:
    """Return the line of the value at a path, or of the last part of the path that exists."""
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError:
        return 1
    line = 1
    for step in steps:
        found = _child(node, step)
        if found is None:
            break
        node, line = found[1], found[0].start_mark.line + 1
    return line


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the key and the value of a mapping, or an element twice; None if there is none."""
    if isinstance(node, yaml.MappingNode):
        return next((pair for pair in node.value if pair[0].value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None


def _lines_with(text: str, words: list[str]) -> Iterator[int]:
    for word in words:
        for number, line in enumerate(text.splitlines(), 1):
            if word in line:
                yield number
