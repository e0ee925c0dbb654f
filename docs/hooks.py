"""What MkDocs runs while it builds the site."""

import re
from pathlib import Path
from typing import Any

from replication_lab.world import catalogue

# Links of the book to files outside docs/: readers of the site do not have these files.
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")
# The theme loads this script from elsewhere, so that the search works in pages that are opened as files.
_THEIRS, _OURS = re.compile(r"https://unpkg\.com/iframe-worker/shim"), "assets/iframe-worker/shim.js"
# What a page has in place of the text of a file beside docs/.
_TEXT = re.compile(r"^<!-- the text of (\w+\.md) -->$", re.M)
_MOVED = '<!doctype html><title>moved</title><meta http-equiv="refresh" content="0; url={0}"><a href="{0}">moved</a>\n'


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page with the text of the file that it stands for, and without links to files outside docs/."""
    return _OUTSIDE.sub(r"\1", _TEXT.sub(lambda found: _of_the_project(found[1]), markdown))


def on_post_build(config: Any) -> None:
    """Write a page for each old address, which leads to the page that has its text now."""
    for name, address in config["extra"]["moved"].items():
        (Path(config["site_dir"]) / f"{name}.html").write_text(_MOVED.format(address))


def on_post_page(output: str, **_: Any) -> str:
    """Return a page that loads every script from the site itself."""
    return _THEIRS.sub(_OURS, output)


def on_post_template(output_content: str, **_: Any) -> str:
    """Do the same for pages that no file of the book is behind, such as that of an unknown address."""
    return _THEIRS.sub(f"/{_OURS}", output_content)


def _of_the_project(name: str) -> str:
    """Return a file beside docs/ as a page; its links are relative to docs/, as those of other pages are."""
    text = (catalogue.ROOT / name).read_text()
    beside = re.sub(r"\]\((?!docs/|https?:|#)", "](../", text)
    return beside.replace("](docs/", "](").replace("](../CHANGELOG.md", "](changelog.md").partition("\n")[2].strip()
