"""The parts of pages that are made from the code and its data: `make texts` writes them, and a test finds stale ones.

A part stands between `<!-- made: NAME -->` and the line END.
"""

import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import replication_lab
from replication_lab import faults
from replication_lab.runner import drill_set
from replication_lab.world import catalogue

from tests.kept import table

PAGES = sorted((catalogue.ROOT / "docs").glob("*.md"))
END = "<!-- made up to here -->"
PART = re.compile(rf"^(<!-- made: (\w+) -->\n)(.*?)^{END}$", re.M | re.S)
# Prose is as wide as in the rest of the book; a longer signature has a line for each parameter.
WIDTH, LONGEST_SIGNATURE = 100, 80
CODE = re.compile(r"`[^`]*`")


def page(path: Path) -> str:
    """Return a page with every part as today's code makes it."""
    return PART.sub(lambda found: f"{found[1]}\n{MAKERS[found[2]]().strip()}\n\n{END}", path.read_text())


# --- tables -----------------------------------------------------------------------------------------------------------


def fault_table() -> str:
    """Return a row for each fault there is, in the order of the names."""
    rows = ((f"`{name}`", kind.targets, kind.does, kind.proof) for name, kind in sorted(faults.kinds().items()))
    return table(("fault", "targets", "what it does", "its proof"), rows)


def promises() -> str:
    """Return the expectations that a drill can name, in the order of their file."""
    rows = ((f"`{name}`", each.says, f"`{each.figure}`", each.bound) for name, each in drill_set.promises().items())
    return table(("promise", "sentence", "figure", "bound"), rows)


def engines() -> str:
    """Return the engines as `lab list engines` prints them."""
    rows = (
        (f"`{name}`", each.version, each.about, ", ".join(catalogue.topologies_for(name)))
        for name, each in catalogue.engines().items()
    )
    return table(("engine", "version", "what it is", "topologies"), rows)


def tested() -> str:
    """Return the recorded tests of each engine."""
    rows = (
        (f"`{name}` {test.version}", test.day, test.processor, test.what, test.outcome)
        for name, tests in catalogue.tested().items()
        for test in tests
    )
    return table(("engine", "day", "processor", "what was tested", "outcome"), rows)


# --- public names -----------------------------------------------------------------------------------------------------


def public_names() -> str:
    """Return the public names with their signatures, docstrings and methods."""
    return "\n\n".join(_described(name, getattr(replication_lab, name)) for name in replication_lab.__all__)


def _described(name: str, found: Any) -> str:
    paragraphs = [_wrapped(each) for each in (inspect.getdoc(found) or "").split("\n\n")]
    methods = "\n".join(_method(found, each) for each in _methods(found))
    parts = [f"## {name}", f"```text\n{name}{_signature(found, by_line=True)}\n```", *paragraphs, methods]
    return "\n\n".join(filter(None, parts))


def _wrapped(paragraph: str, indent: str = "") -> str:
    """Return a paragraph in lines of the book's width, without a break inside of code."""
    whole = CODE.sub(lambda code: code[0].replace(" ", "\0"), " ".join(paragraph.split()))
    whole = whole.replace("- `", "-\0`", 1) if indent else whole
    lines = textwrap.wrap(whole, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
    return "\n".join(lines).replace("\0", " ")


def _methods(found: Any) -> list[str]:
    """Return the methods and properties that a class defines itself, in the order of the code."""
    return [
        name
        for name, each in (vars(found).items() if inspect.isclass(found) else ())
        if not name.startswith("_") and (inspect.isfunction(each) or isinstance(each, property))
    ]


def _method(found: Any, name: str) -> str:
    method = vars(found)[name]
    said = inspect.getdoc(method)
    signature = "" if isinstance(method, property) else _signature(method)
    return _wrapped(f"- `{name}{signature}`" + (f": {said}" if said else ""), indent="  ")


def _signature(found: Any, by_line: bool = False) -> str:
    """Return the parameters with their types, a line each if they are many, and what is returned."""
    try:
        signature = inspect.signature(found)
    except ValueError:
        return ""
    parameters = [_without_modules(str(each)) for each in signature.parameters.values() if each.name != "self"]
    returned = signature.return_annotation
    shown = "" if inspect.isclass(found) or returned is signature.empty else _returned(returned)
    listed = ", ".join(parameters)
    if by_line and len(listed) > LONGEST_SIGNATURE:
        listed = "\n    " + ",\n    ".join(parameters) + ",\n"
    return f"({listed}){shown}"


def _returned(annotation: Any) -> str:
    return f" -> {_without_modules(inspect.formatannotation(annotation))}"


def _without_modules(text: str) -> str:
    """Return a signature's part with bare names of types, and … for a default that has no short form."""
    bare = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", text).replace("~", "")
    return re.sub(r"<[^>]*>", "…", re.sub(r"'([A-Z]\w*)'", r"\1", bare))


MAKERS: dict[str, Callable[[], str]] = {
    "fault_table": fault_table,
    "promises": promises,
    "engines": engines,
    "tested": tested,
    "public_names": public_names,
}


if __name__ == "__main__":
    for each in PAGES:
        each.write_text(page(each))
