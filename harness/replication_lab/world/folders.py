"""Where the lab's own files are, and where it writes: in a checkout, or installed as a package.

An installed package is never written to.
"""

import os
import re
from contextlib import suppress
from pathlib import Path

from replication_lab.model.core import command

PACKAGE = Path(__file__).parents[1]
CHECKOUT = PACKAGE.parents[1]
# A wheel has the folders compose/, images/ and toxics/ inside the package; a checkout has them at its root.
INSTALLED = (PACKAGE / "compose").is_dir()
DATA = PACKAGE if INSTALLED else CHECKOUT
# Results, for people to read.
_seen = [Path.cwd()]
RUNS = _seen[0] / "runs" if INSTALLED else CHECKOUT / "runs"
# What commands in any directory have to find again: the settings of running labs, locks, facts about this host.
KEPT = RUNS
if INSTALLED:
    # Not in a checkout, where the launcher uses this file before there are any libraries.
    import platformdirs

    KEPT = platformdirs.user_cache_path("replication-lab", appauthor=False)


def here() -> Path:
    """Return the current folder; the last one that there was if it was deleted while the command runs."""
    with suppress(FileNotFoundError):
        _seen[0] = Path.cwd()
    return _seen[0]


def from_here(path: Path) -> str:
    """Return a path as seen from the current folder."""
    return os.path.relpath(path, here())


def installing(extra: str) -> str:
    """Return the command that installs an extra, from the checkout or wheel of which pip recorded the address."""
    from importlib import metadata  # only here: it takes 20 ms
    from urllib.parse import unquote

    told = "".join(each.read_text("direct_url.json") or "" for each in metadata.distributions(name="replication-lab"))
    source = re.search(r'"url": *"file://([^"]+)"', told)
    return f"pip install '{unquote(source[1]) if source else 'PATH-OF-CHECKOUT-OR-WHEEL'}[{extra}]'"


def as_typed(text: str) -> str:
    """Return a text with the command as it is typed here: an installed package has `lab` in the search path."""
    return command.installed(text) if INSTALLED else text
