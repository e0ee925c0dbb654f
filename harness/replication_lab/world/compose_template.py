"""Compose overlays that are templates, because they depend on a topology's nodes."""

from pathlib import Path


def filled(template: Path, **values: object) -> str:
    """Return the Compose file of a template; the filter `placed` makes a path of the name of a file beside it."""
    import jinja2  # only here: most labs have no such overlay, and each command would wait for it

    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
    environment.filters["placed"] = lambda name: quoted(str(template.parent / name))
    return environment.from_string(template.read_text()).render(**values)


def quoted(text: str) -> str:
    """Return a text as a YAML scalar in which Compose replaces nothing: a checkout may be anywhere."""
    return "'{}'".format(text.replace("'", "''").replace("$", "$$"))
