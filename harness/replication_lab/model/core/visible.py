"""Text from elsewhere that a terminal would obey: a record, a server's answer or a log may be hostile."""

import re

# Control characters except newline and tab, and the marks that change the direction in which a text is shown.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Return a text in which such characters are escaped as in JSON, so that JSON stays valid and keeps its meaning."""
    return OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
