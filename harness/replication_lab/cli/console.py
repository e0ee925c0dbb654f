"""The commands' output: text and data to standard output, progress and remarks to standard error."""

import os
import sys
from typing import Any

import click
import msgspec
from rich.markup import escape

from replication_lab.world.console import Console

# A pipe has no width of its own; addresses and sentences must not be broken.
out = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def has_desktop() -> bool:
    """Return whether a browser can be opened for the user who types."""
    desktop = sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return desktop and sys.stdout.isatty()


def tell(line: str) -> None:
    """Print progress or a remark to standard error: standard output is for the result."""
    err.print(line, markup=False)


def complain(error: Exception) -> None:
    """Print an error to standard error."""
    err.print(f"[red]error:[/] {escape(str(error))}")


def print_json(data: Any) -> None:
    """Print data for programs."""
    click.echo(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
