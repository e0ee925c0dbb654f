"""Is the readability of pages measured on their sentences, and never on nothing?"""

import importlib.util

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
    assert readability.score("page", "word " * 26 + ". Short one.", 50).long_sentences == 1


def test_a_missing_library_is_a_failure(monkeypatch, capsys):
    """It says so, and the target does not pass."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    assert readability.main() == 1
    assert "not installed: textstat" in capsys.readouterr().out
