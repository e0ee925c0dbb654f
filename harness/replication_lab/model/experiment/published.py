"""The YAML file beside an experiment: what was published, and which verdicts are known."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from replication_lab.model.core.errors import LabError, refuse_unknown, unknown_name
from replication_lab.model.core.verdict import Expected, Verdict


class PublishedRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One figure of a case in the literature."""

    case: str
    figure: str
    value: float
    unit: str = ""


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A publication; what was not found is empty, and `known` says so."""

    year: int
    author: str = ""
    title: str = ""
    url: str = ""
    known: str = ""

    def citation(self) -> str:
        """Return author, title, year and address as one sentence, and then what else is known."""
        named = [self.author, self.title and f"“{self.title}”"] if self.title else ["a public write-up"]
        parts = [*filter(None, named), str(self.year), *filter(None, [self.url])]
        return f"{', '.join(parts)}. {self.known}".strip()


class Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table in the literature: `source` says how it was measured, `cites` names where it was published."""

    source: str
    rows: list[PublishedRow] = []
    cites: str = ""


# What stands for `{name}` in the texts of a case or a claim.
Words = dict[str, Any]


class CaseData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A case, with the fields of Case (case.py); `topology` and `engine` are those of its lab.

    `storage` are the disks of its lab, by node: names of compose/storage/disks.yaml. `start` are variables that all
    servers of its lab are started with.

    `each` makes a case for each row of a list, or for each combination of the rows of several; `{name}` in a text is
    replaced by the row's value. A list may be the name of one that the experiment makes.
    """

    about: str = ""
    settings: dict[str, Any] = {}
    needs: list[str] | str = []
    topology: str = ""
    engine: str = ""
    storage: dict[str, str] = {}
    start: dict[str, str] = {}
    compared: list[str] | None = None
    links: str | dict[str, str] = ""
    state: dict[str, Any] = {}
    each: list[str | list[Words]] = []


class ClaimData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A claim: what it says, in words and as a relation, and what the literature and the law say about it.

    Without a relation it adds what was published to a claim that another entry, or the experiment's own file, makes.
    `predicted` is a number, or the name of one that the experiment computes. `engine` is the only one that it is judged
    on. `each` is as for a case.
    """

    sentence: str = ""
    relation: str = ""
    published: float | None = None
    predicted: float | str | None = None
    law: bool = False
    engine: str = ""
    each: list[str | list[Words]] = []


class KnownVerdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The verdict known for a claim on an engine."""

    claim: str
    engine: str
    verdict: Verdict
    because: str

    def __post_init__(self) -> None:
        _ = self.expected  # refuses what can never be expected

    @property
    def expected(self) -> Expected:
        return Expected(self.verdict, self.because)


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The YAML file beside an experiment; a preset has the fields of Preset (experiment.py)."""

    published: Published = Published(source="")
    cases: dict[str, CaseData] = {}
    presets: dict[str, dict[str, Any]] = {}
    claims: dict[str, ClaimData] = {}
    expected: list[KnownVerdict] = []

    def citing(self, sources: dict[str, Source]) -> "Data":
        """Return the data with the citation of their publication before what the source says. Raise LabError."""
        if not (name := self.published.cites):
            return self
        refuse_unknown("source of published figures", name, sources)
        source = f"{sources[name].citation()} {self.published.source}"
        return msgspec.structs.replace(self, published=msgspec.structs.replace(self.published, source=source))

    def of_claims(self) -> "Data":
        """Return the data without what only makes claims, and with the literature's values by the claims' own ids."""
        known = {name: found for name, found in self.claims.items() if found.published is not None}
        return msgspec.structs.replace(self, claims={n: ClaimData(published=c.published) for n, c in known.items()})

    def under_other_conditions(self, claims: Iterable[str], known_at: str) -> "Data":
        """Return the data that apply under changed conditions: the verdicts known for `claims`, no published figure.

        `known_at` names the conditions under which the verdicts are known.
        """
        kept, source = set(claims), self.published.source
        return Data(
            Published(source and f"not compared, since conditions changed: {source}"),
            expected=[
                msgspec.structs.replace(known, because=f"known {known_at}: {known.because}")
                for known in self.expected
                if known.claim in kept
            ],
        )


def parse_data(text: str | bytes, name: str = "the experiment's data") -> Data:
    """Decode the YAML beside an experiment. Raise LabError that names an unknown key and the most similar known one."""
    try:
        return msgspec.yaml.decode(text, type=Data)
    except msgspec.MsgspecError as error:
        raise _explained(str(error), name) from error


def _explained(error: str, name: str) -> LabError:
    unknown = re.search(r"unknown field `(.*?)`", error)
    if not unknown:
        return LabError(f"{name}: {error}", "the keys of docs/statistics.md, section expected verdicts")
    known = {key for kind in (Data, Published, PublishedRow, ClaimData, KnownVerdict) for key in kind.__struct_fields__}
    return unknown_name(f"key in {name}", unknown[1], known)
