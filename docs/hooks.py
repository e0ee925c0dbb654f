"""What MkDocs runs while it builds the site."""

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import replication_lab
from replication_lab.world import catalogue

# Links of the book to files outside docs/: readers of the site do not have these files.
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")
# The theme loads this script from elsewhere, so that the search works in pages that are opened as files.
_THEIRS, _OURS = re.compile(r"https://unpkg\.com/iframe-worker/shim"), "assets/iframe-worker/shim.js"
# Signatures that are longer have a line for each parameter.
LONGEST = 80
# What a page has in place of a part that is made from the code or its data.
_MADE = re.compile(r"^<!-- made: (\w+) -->$", re.M)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page's text with its made parts, and the names of files outside docs/ in place of links to them."""
    return _OUTSIDE.sub(r"\1", _MADE.sub(lambda found: MAKERS[found[1]](), markdown))


def on_post_page(output: str, **_: Any) -> str:
    """Return a page that loads every script from the site itself."""
    return _THEIRS.sub(_OURS, output)


def on_post_template(output_content: str, **_: Any) -> str:
    """Do the same for pages that no file of the book is behind, such as that of an unknown address."""
    return _THEIRS.sub(f"/{_OURS}", output_content)


# --- parts that are made ----------------------------------------------------------------------------------------------


def public_names() -> str:
    """Return the public names with their signatures, docstrings and methods."""
    return "\n\n".join(_described(name, getattr(replication_lab, name)) for name in replication_lab.__all__)


def _described(name: str, found: Any) -> str:
    parts = [f"## {name}", f"```python\n{name}{_signature(found, by_line=True)}\n```", inspect.getdoc(found) or ""]
    return "\n\n".join([*parts, "\n".join(_method(found, each) for each in _methods(found))])


def _methods(found: Any) -> list[str]:
    """Return the methods and properties that a class defines itself, in the order of the code."""
    return [
        name
        for name, each in (vars(found).items() if inspect.isclass(found) else ())
        if not name.startswith("_") and (inspect.isfunction(each) or isinstance(each, property))
    ]


def _method(found: Any, name: str) -> str:
    method = vars(found)[name]
    said = " ".join((inspect.getdoc(method) or "").split())
    return f"- `{name}{'' if isinstance(method, property) else _signature(method)}`" + (f": {said}" if said else "")


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
    if by_line and len(listed) > LONGEST:
        listed = "\n    " + ",\n    ".join(parameters) + ",\n"
    return f"({listed}){shown}"


def _returned(annotation: Any) -> str:
    return f" -> {_without_modules(inspect.formatannotation(annotation))}"


def _without_modules(text: str) -> str:
    """Return a signature's part with bare names of types, and … for a default that has no short form."""
    bare = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", text).replace("~", "")
    return re.sub(r"<[^>]*>", "…", re.sub(r"'([A-Z]\w*)'", r"\1", bare))


def engines() -> str:
    """Return the table of engines, and when which version of them was tested, as `lab engines` prints them."""
    rows = [
        f"| `{name}` | {each.version} | {each.about} | {', '.join(catalogue.topologies_for(name))} |"
        for name, each in catalogue.engines().items()
    ]
    return "\n".join(["| engine | version | what it is | topologies |", "|---|---|---|---|", *rows])


def tested() -> str:
    """Return the table of recorded tests."""
    rows = [
        f"| `{name}` {test.version} | {test.day} | {test.processor} | {test.what} | {test.outcome} |"
        for name, tests in catalogue.tested().items()
        for test in tests
    ]
    return "\n".join(["| engine | day | processor | what was tested | outcome |", "|---|---|---|---|---|", *rows])


def of_the_project(name: str) -> str:
    """Return a file beside docs/ as a page; its links are relative to docs/, as those of other pages are."""
    text = (catalogue.ROOT / f"{name.upper()}.md").read_text()
    beside = re.sub(r"\]\((?!docs/|https?:|#)", "](../", text)
    return beside.replace("](docs/", "](").replace("](../CHANGELOG.md", "](changelog.md").partition("\n")[2].strip()


MAKERS: dict[str, Callable[[], str]] = {
    "public_names": public_names,
    "engines": engines,
    "tested": tested,
    **{name: partial(of_the_project, name) for name in ("changelog", "contributing", "security")},
}
