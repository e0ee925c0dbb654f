"""Print how hard the docs and the help are to read: `make readability`.

For each page: Flesch's reading ease (60 and more is plain English, below 30 is hard), the words of a sentence on
average, and how many sentences have more than 25 words. Hardest page first.
"""

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/*.md", "tests/snapshots/*")
LIBRARY, MOST_WORDS, FEWEST_WORDS = "textstat", 25, 30


class Score(NamedTuple):
    """The readability of one page."""

    ease: float
    words_a_sentence: float
    long_sentences: int
    page: str


def prose(text: str) -> str:
    """Return the sentences of a page: without code, tables, headings, addresses and the table of a help's options."""
    text = re.sub(r"^```.*?^```|<!--.*?-->", "", text, flags=re.S | re.M)
    text = re.sub(r"^(Usage:.*|#.*|\|.*|Example:.*|(Options|Commands):)$", "", text, flags=re.M)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`|\{[^{}]*\}", "it", text)
    text = re.sub(r"^\s*(-{1,2}[\w-]+,? ?)+([A-Z\[][\w|=\].…-]*)?", "", text, flags=re.M)
    # An entry of a list ends a sentence, with or without a full stop.
    return re.sub(r"([\w)])\s*\n\s*(?=[-*] |\d+\. |\n)", r"\1.\n", text)


def sentences(text: str) -> list[list[str]]:
    """Return the words of each sentence."""
    found = [re.findall(r"[A-Za-z][\w'’-]*", each) for each in re.split(r"(?<=[.!?:])\s+", prose(text))]
    return [words for words in found if words]


def score(page: str, text: str, ease: float) -> Score:
    found = sentences(text)
    words = sum(map(len, found))
    return Score(ease, words / max(len(found), 1), sum(len(each) > MOST_WORDS for each in found), page)


def main() -> int:
    if importlib.util.find_spec(LIBRARY) is None:
        print(f"not installed: {LIBRARY}; nothing was measured")
        return 1
    ease = importlib.import_module(LIBRARY).flesch_reading_ease
    scores = []
    for path in (each for pattern in PAGES for each in ROOT.glob(pattern)):
        text = path.read_text()
        if sum(map(len, sentences(text))) >= FEWEST_WORDS:
            scores.append(score(str(path.relative_to(ROOT)), text, ease(prose(text))))
    print("ease  words a sentence  over 25 words  page")
    for each in sorted(scores):
        print(f"{each.ease:4.0f}  {each.words_a_sentence:16.1f}  {each.long_sentences:13}  {each.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
