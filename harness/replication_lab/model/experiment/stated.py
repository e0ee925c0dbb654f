"""The cases and claims of the YAML file beside an experiment: one for each row of words that an entry names."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from replication_lab.model.core.errors import LabError, as_lab_error, refuse_unknown, unknown_name
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.experiment.case import Case, LabSpec
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.published import CaseData, ClaimData, Words
from replication_lab.model.experiment.quantities import ErrorShare, Figure, Loops, PerRoundTrip, Quantity, Sum, Total
from replication_lab.model.experiment.relations import Bounds, NoneSeen, SomeSeen
from replication_lab.model.lab.option_file import StartOptions
from replication_lab.model.lab.storage import ALONE, Storage
from replication_lab.model.question.server_options import CaseState

Entry = TypeVar("Entry", CaseData, ClaimData)
# A text that is nothing but a word stands for its value, of whichever type.
WORD = re.compile(r"\{(\w+)\}")


def cases(entries: Mapping[str, CaseData], words: Words) -> Iterator[Case]:
    """Yield the cases of entries. Raise LabError for an unknown word, and for a state that no case has."""
    for name, found, known in by_row(entries.items(), words):
        parts = filled(msgspec.to_builtins(found), known)
        compared = parts["compared"]
        with as_lab_error(msgspec.ValidationError, f"case {name}", "a state as in docs/statistics.md"):
            state = msgspec.convert(parts["state"], CaseState)
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
    """Return the lab that a case names. Raise LabError for a key of the lab without its topology."""
    disks = tuple((node, Storage(level=ALONE, disk=disk)) for node, disk in parts["storage"].items())
    if parts["topology"]:
        options = StartOptions(variables=parts["start"]).text
        file = GivenFile(", ".join(f"{key}={value}" for key, value in parts["start"].items()), options)
        return LabSpec(parts["topology"], parts["engine"], disks or None, cnf=file if options else None)
    for key in ("storage", "start"):
        if parts[key]:
            raise LabError(f"case {name} has the key {key} and no topology", "the topology of the lab")
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
            engine=filled(found.engine, known),
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


NUMBER = r"\d+(?:\.\d+)?"
FIGURE = r"\w+\([^()]*\)"
# A figure, the sum of some, or the law clients/RTT.
TERM = rf"{FIGURE}|\((?:\d+/)?{FIGURE}(?: \+ {FIGURE})*\)"
BOUNDED = re.compile(
    rf"(?P<over>{TERM})(?: / (?P<under>{TERM}))? "
    rf"(?:(?P<sign>≤|<=|≥|>=) (?P<bound>{NUMBER})"
    rf"|in (?P<low>{NUMBER})–(?P<high>{NUMBER})"
    r"|known within ±(?P<margin>\d+) ?%)"
)
COUNTED = re.compile(
    r"(?P<quiet>quiet )?(?P<name>\w+)\((?P<case>[^()]*)\) "
    r"(?:= 0 in (?:≥|>=) (?P<least>\d+) (?P<trials>\w+)|> 0)"
)
PARTS = re.compile(r"(?P<name>\w+)\((?P<case>.*?)(?: of (?P<engine>.*?))?\)")


def parse_relation(text: str) -> Bounds | NoneSeen | SomeSeen:
    """Return the relation that a text states. Raise LabError for a text that states none.

    Figures have the names that a record has. `average_loops(case)` is `average_ms` divided by the time of the loop
    beside it, `(4/rtt_p50_ms(case))` the law for 4 clients. `quiet` before a count leaves noisy rounds out.
    """
    if found := COUNTED.fullmatch(text):
        count = Total(found["case"], found["name"], bool(found["quiet"]))
        return count.is_zero(found["trials"], int(found["least"])) if found["trials"] else count.is_positive()
    found = BOUNDED.fullmatch(text)
    if not found:
        raise LabError(
            f"the relation {text!r} cannot be read",
            "figures of cases with `≥ 0.9`, `in 0.95–1.05`, `known within ±10 %`, `= 0 in ≥ 30 commits` or `> 0`",
            "throughput(far) / throughput(near) ≥ 0.9",
        )
    quantity = _term(found["over"])
    if found["under"]:
        quantity = quantity / _term(found["under"])
    if found["margin"]:
        return quantity.known(within=int(found["margin"]) / 100)
    if found["low"]:
        return quantity.between(_number(found["low"]), _number(found["high"]))
    bound = _number(found["bound"])
    return quantity >= bound if found["sign"] in ("≥", ">=") else quantity <= bound


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


def _term(text: str) -> Quantity:
    clients, is_law, trip = text.strip("(").partition("/")
    (first, *others) = _figures(trip if is_law else text)
    if is_law:
        return PerRoundTrip(first.case, int(clients), first.name)
    return Sum((first, *others)) if others else first


def _figures(text: str) -> Iterator[Figure]:
    for found in PARTS.finditer(text):
        name, case, engine = found["name"], found["case"], found["engine"]
        if name.endswith("_loops"):
            yield Loops(case, f"{name.removesuffix('_loops')}_ms", engine)
        else:
            yield (ErrorShare if name == "errors" else Figure)(case, name, engine)
