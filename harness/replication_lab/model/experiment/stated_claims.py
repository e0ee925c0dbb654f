"""The claims of the YAML file beside an experiment: one for each row of words that an entry names."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.published import ClaimData, Words
from replication_lab.model.experiment.relation_text import parse_relation

Entry = tuple[str, ClaimData]


def stated(entries: Iterable[Entry], words: Words) -> Iterator[Claim]:
    """Yield the claims of entries (id, data) that have a relation. Raise LabError for an unknown word.

    Entries that follow each other and have the same list of rows come row by row.
    """
    for rows, group in groupby((entry for entry in entries if entry[1].relation), _first):
        if not rows:
            yield from (_claim(name, found, words) for name, found in group)
            continue
        further = [(name, replace(found, each=found.each[1:])) for name, found in group]
        for row in _word(rows, words) if isinstance(rows, str) else rows:
            filled = {key: _filled(text, words) if isinstance(text, str) else text for key, text in row.items()}
            yield from stated(further, words | filled)


def _first(entry: Entry) -> str | list[Words] | None:
    return entry[1].each[0] if entry[1].each else None


def _claim(name: str, found: ClaimData, words: Words) -> Claim:
    predicted = found.predicted
    return Claim(
        _filled(name, words),
        _filled(found.sentence, words),
        parse_relation(_filled(found.relation, words)),
        predicted=_word(_filled(predicted, words), words) if isinstance(predicted, str) else predicted,
        law=found.law,
    )


def _filled(text: str, words: Words) -> str:
    try:
        return text.format_map(words)
    except KeyError as error:
        raise unknown_name("word in a claim", str(error.args[0]), words) from error
    except (ValueError, IndexError) as error:
        raise LabError(f"the text {text!r} of a claim cannot be filled in: {error}", "words as {name}") from error


def _word(name: str, words: Words) -> Any:
    if name not in words:
        raise unknown_name("word in a claim", name, words)
    return words[name]
