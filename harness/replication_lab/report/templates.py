"""The templates of reports and the files that pages contain, with one set of rules for all."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

ASSETS = Path(__file__).parents[1] / "assets"


def environment(autoescape: bool = False) -> Environment:
    """Return an environment of the templates in this folder, which compiles each of them once."""
    return Environment(
        loader=PackageLoader("replication_lab", "report"),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def asset(name: str) -> str:
    """Return a style sheet or a script of assets/."""
    return (ASSETS / name).read_text()
