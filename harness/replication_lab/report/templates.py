"""The templates of reports and the files that pages contain, with one set of rules for all."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

ASSETS = Path(__file__).parents[1] / "assets"


def environment(folder: str = "report", autoescape: bool = False) -> Environment:
    """Return an environment of the templates in a folder of the package, which compiles each of them once."""
    found = Environment(
        loader=PackageLoader("replication_lab", folder),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # A text of somebody else's stays in its line.
    found.filters["line"] = lambda said: " ".join(said.split())
    return found


def lines_of(text: object) -> list[str]:
    """Return the lines of a text that a template made, without empty ones."""
    return [line.strip() for line in str(text).splitlines() if line.strip()]


@cache
def macros(name: str, **known: object) -> Any:
    """Return the macros of a template as functions, compiled once; `known` are what it can name besides."""
    found = environment()
    found.globals |= known
    return found.get_template(name).module


@cache
def asset(name: str) -> str:
    """Return a style sheet or a script of assets/."""
    return (ASSETS / name).read_text()
