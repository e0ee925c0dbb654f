"""What MkDocs runs while it builds the site."""

import re
from typing import Any

# Links of the book to files outside docs/: readers of the site do not have these files.
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")
# The theme loads this script from elsewhere, so that the search works in pages that are opened as files.
_THEIRS, _OURS = re.compile(r"https://unpkg\.com/iframe-worker/shim"), "assets/iframe-worker/shim.js"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page's text with the names of files outside docs/ in place of links to them."""
    return _OUTSIDE.sub(r"\1", markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Return a page that loads every script from the site itself."""
    return _THEIRS.sub(_OURS, output)


def on_post_template(output_content: str, **_: Any) -> str:
    """Do the same for pages that no file of the book is behind, such as that of an unknown address."""
    return _THEIRS.sub(f"/{_OURS}", output_content)
