"""The tables of kept records in which a figure of each case stands beside that of others."""

from collections.abc import Iterator

from tests import kept
from tests.kept_table import table


def rates(name: str) -> str:
    """Return the commits a second of each engine, by case."""
    if name in kept.waiting():
        return ""
    found = kept.experiment(name).cases
    said = {case.name: case.about for case in found}
    rate = {(case.engine, case.name): kept.of_a_figure(case.figures["throughput"]) for case in found}
    engines = dict.fromkeys(case.engine for case in found)
    rows = ((f"`{engine}`", *(rate[engine, each] for each in said)) for engine in engines)
    return table(("engine", *said.values()), rows)


def appliers(name: str, engine: str) -> str:
    """Return the rows a second that each replica of a race applied, by case."""
    arrays = {"RAID1": "raid1", "RAID0": "raid0", "one disk": "single"}

    def rows() -> Iterator[tuple[str, ...]]:
        for case in (case for case in kept.experiment(name).cases if case.engine == engine):
            yield (
                f"`{case.name}`",
                *(kept.of_a_figure(case.figures[f"{each}_rows_per_second"]) for each in arrays.values()),
            )

    return table(("case", *arrays), rows())


def protocols(figure: str) -> str:
    """Return a figure of DRBD's protocols, by the round trip of the link in ms."""
    said = {"a": "A: sent", "b": "B: in the peer's memory", "c": "C: written by the peer's disk"}
    trips = {"0": "LAN", "1": "1 ms", "10": "10 ms", "85": "85 ms"}
    cases = {case.name: case for case in kept.experiment("drbd_protocols").cases}

    def rows() -> Iterator[tuple[str, ...]]:
        for name, words in said.items():
            yield words, *(kept.of_a_figure(cases[f"{name}-{trip}"].figures[figure]) for trip in trips)

    return table(("protocol", *trips.values()), rows())
