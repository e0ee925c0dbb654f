"""The checks that hold for every page that the lab writes."""

import re
from collections import Counter

import html5lib

MOST = 600 * 1024


def without_assets(html: str) -> str:
    """Return a page without its style sheets and scripts, which take most of a parser's time."""
    return re.sub(r"(<(script|style)[^>]*>).*?(</\2>)", r"\1\3", html, flags=re.DOTALL)


def check(html: str) -> None:
    """Check what holds for every page of the lab."""
    html5lib.HTMLParser(strict=True).parse(without_assets(html))
    ids = Counter(re.findall(r'\sid="([^"]*)"', html))
    assert [name for name, count in ids.items() if count > 1] == []
    wanted = set(re.findall(r'(?:href="#|aria-labelledby=")([^"]*)"', without_assets(html)))
    assert wanted - ids.keys() == set()
    assert len(re.findall("<table", html)) == len(re.findall("<caption", html))
    assert re.findall(r"<th(?![^>]*scope)[ >]", html) == []
    assert re.findall(r"<svg(?![^>]*role=\"img\")|<svg[^>]*>(?!<title>)", html) == []
    assert len(html.encode()) <= MOST
