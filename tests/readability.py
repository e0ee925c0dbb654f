"""Print how hard the docs and the help are to read: `make readability`.

For each page: Flesch's reading ease, the words of a sentence on average, and how many sentences have more than 25
words. Hardest page first. Syllables are the places where a word may be hyphenated, which are fewer: the figures compare
pages with each other, not with those of other programs.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyphen

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/*.md", "tests/snapshots/*")
MOST_WORDS, FEWEST_WORDS = 25, 30


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


def score(page: str, text: str, syllables: Callable[[str], int]) -> Score | None:
    """Return a page's score; None for a page of a few words.

    Reading ease is Flesch's of 1948: 206.835 - 1.015 words per sentence - 84.6 syllables per word.
    """
    found = sentences(text)
    words = [word for sentence in found for word in sentence]
    if len(words) < FEWEST_WORDS:
        return None
    of_a_sentence, of_a_word = len(words) / len(found), sum(map(syllables, words)) / len(words)
    ease = 206.835 - 1.015 * of_a_sentence - 84.6 * of_a_word
    return Score(ease, of_a_sentence, sum(len(each) > MOST_WORDS for each in found), page)


def main() -> None:
    hyphens = pyphen.Pyphen(lang="en_US", left=1, right=1)
    scores = [
        score(str(path.relative_to(ROOT)), path.read_text(), lambda word: len(hyphens.positions(word)) + 1)
        for pattern in PAGES
        for path in ROOT.glob(pattern)
        if path.suffix in (".md", ".txt")
    ]
    print("ease  words per sentence  over 25 words  page")
    for each in sorted(filter(None, scores)):
        print(f"{each.ease:4.0f}  {each.words_a_sentence:18.1f}  {each.long_sentences:13}  {each.page}")


if __name__ == "__main__":
    main()
