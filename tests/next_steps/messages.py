"""The messages that print a next step: where the program makes them, what they print, and a state that printed each.

    PYTHONPATH=harness .venv/bin/python -m tests.next_steps.messages [FILE]…

runs the unit tests, or these files of them, and writes messages.yaml again: for each place a test that made it print
its message. What other files print stays in the table.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import msgspec
from replication_lab.world import catalogue

from tests.next_steps.printed import commands_of

PACKAGE = catalogue.ROOT / "harness" / "replication_lab"
TABLE = Path(__file__).with_name("messages.yaml")
HEAD = """\
# Each message that prints a command of the lab as its next step, by the module that makes it: the function, the step as
# the program writes it, and a test whose state printed it. tests/unit/conftest.py lets the real command line parse what
# each state prints. "none": no unit test makes the state; tests/meta/test_next_steps.py parses the step with words that
# stand for the names. `python -m tests.next_steps.messages` writes this file; a row may be edited as well.
"""
# What makes an error, and the place of the next step among its arguments.
MAKES = {"as_lab_error": 3, "refusal_told": 2, "unknown_name": 3, "refuse_unknown": 3, "wait_until": 9, "kind": 2}
KEYWORDS = ("next_step", "hint")
STANDS_FOR = "NAME"


class Message(NamedTuple):
    """A place that makes a message: the function, the next step as it is written there, the lines of the call."""

    function: str
    next: str
    lines: range


class Row(msgspec.Struct, array_like=True):
    """A message of the table, and the test whose state printed it."""

    function: str
    next: str
    state: str


@cache
def of_module(module: str) -> tuple[Message, ...]:
    """Return the messages of a module, by its path in the package."""
    return tuple(_of(ast.parse((PACKAGE / module).read_text()), ""))


def _of(node: ast.AST, function: str) -> Iterator[Message]:
    for child in ast.iter_child_nodes(node):
        inside = function
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inside = f"{function}.{child.name}".strip(".")
        if isinstance(child, ast.Call) and (step := _step(child)) is not None:
            yield Message(inside, ast.unparse(step), range(child.lineno, (child.end_lineno or 0) + 1))
        yield from _of(child, inside)


def _step(call: ast.Call) -> ast.expr | None:
    """Return the next step that a call gives an error; None if it makes none."""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    if name not in MAKES and name not in _errors():
        return None
    named = [keyword.value for keyword in call.keywords if keyword.arg in KEYWORDS]
    return next(iter([*named, *call.args[MAKES.get(name, 2) :][:1]]), None)


@cache
def _errors() -> frozenset[str]:
    """Return the names of LabError and of its subclasses, whether or not their modules are imported."""
    bases = {
        node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for module in modules()
        for node in ast.walk(ast.parse((PACKAGE / module).read_text()))
        if isinstance(node, ast.ClassDef)
    }
    found = more = {"LabError"}
    while more:
        more = {name for name, each in bases.items() if each & found} - found
        found |= more
    return frozenset(found)


def modules() -> list[str]:
    return sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))


def steps_in(written: str) -> Iterator[str]:
    """Yield each text that a next step can be, with a word for each value that is filled in."""
    yield from _texts(ast.parse(written, mode="eval").body)


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(each.value) if isinstance(each, ast.Constant) else STANDS_FOR for each in node.values)
    elif isinstance(node, ast.IfExp):
        yield from (*_texts(node.body), *_texts(node.orelse))
    elif isinstance(node, ast.BoolOp):
        yield from (text for each in node.values for text in _texts(each))


def table() -> dict[str, list[Row]]:
    return msgspec.yaml.decode(TABLE.read_bytes(), type=dict[str, list[Row]])


# --- what tests print -------------------------------------------------------------------------------------------------

# The next steps that errors of this process had, with the module and the line that made each.
PRINTED: list[tuple[str, int, str]] = []
_OWN = ("model/core/errors.py", "world/clock.py", "/contextlib.py")


def record() -> None:
    """Note the next step of each error from now on."""
    from replication_lab.model.core.errors import LabError

    make = LabError.__init__

    def made(self: LabError, found: str, expected: str = "", next_step: str = "") -> None:
        make(self, found, expected, next_step)
        frame = sys._getframe(1) if next_step else None
        # Of a wait that has timed out there are two: the wait itself, and what waited.
        while frame and (frame.f_locals.get("self") is self or frame.f_code.co_filename.endswith(_OWN)):
            _note(frame, next_step)
            frame = frame.f_back
        if frame:
            _note(frame, next_step)

    LabError.__init__ = made


def _note(frame: FrameType, step: str) -> None:
    file = Path(frame.f_code.co_filename)
    if file.is_relative_to(PACKAGE):
        PRINTED.append((str(file.relative_to(PACKAGE)), frame.f_lineno, step))


def message_at(module: str, line: int) -> Message | None:
    """Return the message whose call has this line, the innermost one."""
    found = [each for each in of_module(module) if line in each.lines]
    return min(found, key=lambda each: len(each.lines), default=None)


def main() -> None:
    """Run the unit tests or some files of them, and write the table from what they printed."""
    noted = TABLE.with_suffix(".noted")
    noted.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:logging", "-p", "no:cacheprovider", "-n", "2"]
    subprocess.run(
        [*command, *(sys.argv[1:] or ["tests/unit"])],
        cwd=catalogue.ROOT,
        env={**os.environ, "NEXT_STEPS": str(noted)},
        check=False,
    )
    kept = table() if sys.argv[1:] else {}
    states = {(module, row.function, row.next): row.state for module, rows in kept.items() for row in rows}
    states = {place: state for place, state in states.items() if state != "none"}
    for line in sorted(noted.read_text().splitlines()):
        test, module, function, step = msgspec.json.decode(line, type=tuple[str, str, str, str])
        states.setdefault((module, function, step), test)
    noted.unlink()
    rows: dict[str, list[Row]] = {}
    for module in modules():
        for each in dict.fromkeys((one.function, one.next) for one in of_module(module)):
            state = states.get((module, *each), "")
            if state or any([*commands_of(step)] for step in steps_in(each[1])):
                rows.setdefault(module, []).append(Row(*each, state or "none"))
    write(rows)


def write(rows: dict[str, list[Row]]) -> None:
    lines = [line for module, found in rows.items() for line in (f"{module}:", *map(_line, found))]
    TABLE.write_text(HEAD + "\n".join(lines) + "\n")


def _line(row: Row) -> str:
    return f"  - {msgspec.json.format(msgspec.json.encode(row), indent=-1).decode()}"


if __name__ == "__main__":
    main()
