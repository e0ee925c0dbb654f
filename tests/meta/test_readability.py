"""Is the readability of pages measured on their sentences, and never on nothing?"""

import pytest

from tests import readability

PAGE = """# A heading

One sentence of five words. See [the page](docs/other.md) for `code` that is short.

| a table | with cells |
|---|---|

- first entry
- second entry

```sh
make up
```
"""


def test_only_sentences_count():
    """Code, tables and headings are no sentences; an entry of a list is one."""
    assert [len(each) for each in readability.sentences(PAGE)] == [5, 8, 2, 2]


def test_long_sentences_are_counted():
    """More than 25 words."""
    assert readability.score("page", "word " * 26 + ". Short one. And more.", lambda _: 1).long_sentences == 1


def test_reading_ease_is_flesch_s():
    """By his formula: ten words a sentence, one and a half syllables a word."""
    text = "one two three four five six seven eight nine ten. " * 4
    found = readability.score("page", text, lambda word: 2 if word in ("seven", "one", "two", "six", "ten") else 1)

    assert found.ease == pytest.approx(206.835 - 10.15 - 84.6 * 1.5)


def test_a_page_of_a_few_words_has_no_score():
    """Nothing is measured on nothing."""
    assert readability.score("page", "Three words only.", lambda _: 1) is None
