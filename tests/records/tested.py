"""What the kept records tell of each engine: what was tested on it, when, in which version.

`python -m tests.records.tested` writes it for `lab list engines`.
"""

import json
import lzma
from collections import defaultdict
from typing import Any

import msgspec
from replication_lab.world import catalogue
from replication_lab.world.catalogue import Tested

from tests.records import golden

FILE = catalogue.PACKAGE / "world" / "tested.yaml"
HEAD = "# What was tested on each engine, and when, by the records in tests/records: python -m tests.records.tested\n"


def tested() -> dict[str, list[Tested]]:
    """Return what the kept records tell, by engine, the latest first."""
    found: dict[str, list[Tested]] = defaultdict(list)
    for name in golden.names():
        for engine, each in _of_record(name):
            found[engine].append(each)
    latest_first = {engine: sorted(each, key=lambda one: (one.day, one.what)) for engine, each in found.items()}
    return {engine: latest_first[engine][::-1] for engine in sorted(found)}


def text() -> str:
    return HEAD + msgspec.yaml.encode(tested()).decode()


def _of_record(name: str) -> list[tuple[str, Tested]]:
    packed = golden.HERE / name / f"{golden.RECORD}.xz"
    opening, *events = map(json.loads, lzma.decompress(packed.read_bytes()).splitlines())
    versions = {event["engine"]: event["version"] for event in events if "version" in event}
    drills = f"drills of {opening.get('topology')}"
    return [
        (
            engine,
            Tested(
                what=opening.get("experiment") or drills,
                day=opening["started"][:10],
                version=version.partition(" ")[0].partition("-")[0],
                processor=opening["environment"]["machine"],
                outcome=_outcome(golden.expected(name), engine),
            ),
        )
        for engine, version in versions.items()
    ]


def _outcome(judged: Any, engine: str) -> str:
    if isinstance(judged, list):
        good = sum(drill["exit_code"] == 0 for drill in judged)
        return f"{good} of {len(judged)} drills as expected"
    claims = [claim for claim in judged["claims"] if claim["engine"] == engine]
    good = sum(claim["verdict"] == claim["expected"] for claim in claims)
    return f"{good} of {len(claims)} claims as expected"


if __name__ == "__main__":
    FILE.write_text(text())
