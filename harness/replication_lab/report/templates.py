"""The templates of reports, with one set of rules for all."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def environment(autoescape: bool = False) -> Environment:
    """Return an environment of the templates in this folder, which compiles each of them once."""
    return Environment(
        loader=PackageLoader("replication_lab", "report"),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
