"""The cases and claims of the YAML file beside an experiment: one for each row of words that an entry names."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from replication_lab.model.core.errors import LabError, refuse_unknown, unknown_name
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.lab_spec import LabSpec
from replication_lab.model.experiment.published import CaseData, ClaimData, Words
from replication_lab.model.experiment.relation_text import parse_relation
from replication_lab.model.lab.storage import ALONE, Storage
from replication_lab.model.question.case_state import CaseState

Entry = TypeVar("Entry", CaseData, ClaimData)
# A text that is nothing but a word stands for its value, of whichever type.
WORD = re.compile(r"\{(\w+)\}")


def cases(entries: Mapping[str, CaseData], words: Words) -> Iterator[Case]:
    """Yield the cases of entries. Raise LabError for an unknown word, and for a state that no case has."""
    for name, found, known in by_row(entries.items(), words):
        parts = filled(msgspec.to_builtins(found), known)
        compared = parts["compared"]
        try:
            state = msgspec.convert(parts["state"], CaseState)
        except msgspec.ValidationError as error:
            raise LabError(f"case {name}: {error}", "a state as in docs/statistics.md") from error
        yield Case(
            filled(name, known),
            parts["about"],
            parts["settings"],
            frozenset(parts["needs"]),
            _lab(name, parts),
            None if compared is None else tuple(compared),
            state=state,
            links=parts["links"],
        )


def _lab(name: str, parts: Mapping[str, Any]) -> LabSpec | None:
    """Return the lab that a case names. Raise LabError for disks without the topology that they are in."""
    disks = tuple((node, Storage(level=ALONE, disk=disk)) for node, disk in parts["storage"].items())
    if parts["topology"]:
        return LabSpec(parts["topology"], parts["engine"], disks or None)
    if disks:
        raise LabError(f"case {name} has the key storage and no topology", "the topology whose nodes have the disks")
    return None


def claims(entries: Mapping[str, ClaimData], words: Words) -> Iterator[Claim]:
    """Yield the claims of entries that have a relation. Raise LabError for an unknown word."""
    for name, found, known in by_row((each for each in entries.items() if each[1].relation), words):
        predicted = found.predicted
        yield Claim(
            filled(name, known),
            filled(found.sentence, known),
            parse_relation(filled(found.relation, known)),
            predicted=_word(filled(predicted, known), known) if isinstance(predicted, str) else predicted,
            law=found.law,
        )


def by_row(entries: Iterable[tuple[str, Entry]], words: Words) -> Iterator[tuple[str, Entry, Words]]:
    """Yield each entry (name, data) with the words of each combination of its rows.

    Entries that follow each other and have the same list of rows come row by row.
    """
    for rows, group in groupby(entries, lambda entry: entry[1].each[0] if entry[1].each else None):
        if not rows:
            yield from ((name, found, words) for name, found in group)
            continue
        further = [(name, replace(found, each=found.each[1:])) for name, found in group]
        for row in _word(rows, words) if isinstance(rows, str) else rows:
            yield from by_row(further, words | filled(row, words))


def filled(value: Any, words: Words) -> Any:
    """Return a text with its words, and the parts of a list or a mapping likewise."""
    if isinstance(value, Mapping):
        return {key: filled(part, words) for key, part in value.items()}
    if isinstance(value, list):
        return [filled(part, words) for part in value]
    if not isinstance(value, str):
        return value
    if only := WORD.fullmatch(value):
        return _word(only[1], words)
    try:
        return value.format_map(words)
    except KeyError as error:
        raise unknown_name("word in an experiment's data", str(error.args[0]), words) from error
    except (ValueError, IndexError) as error:
        raise LabError(f"the text {value!r} cannot be filled in: {error}", "words as {name}") from error


def _word(name: str, words: Words) -> Any:
    refuse_unknown("word in an experiment's data", name, words)
    return words[name]
