"""A run's figures for other programs: CSV, and the JSON list that benchmark actions read."""

from collections.abc import Iterator

import msgspec

from replication_lab.model.comparing.digest import Digest
from replication_lab.model.experiment.quantities import unit_of
from replication_lab.report.csv_text import csv_text
from replication_lab.report.rows import DrillsSummary

HEADINGS = ("run", "engine", "version", "case", "figure", "unit", "number", "value", "doubt")


def csv_of_experiment(found: Digest) -> str:
    """Return a line of CSV for each figure of each quiet round, with the reasons to doubt its case."""
    return csv_text(
        HEADINGS,
        (
            [found.run, name, engine.version, case, figure, unit_of(figure), number, value, "; ".join(measured.doubts)]
            for name, engine in found.engines.items()
            for case, measured in engine.cases.items()
            for figure, values in measured.figures.items()
            for number, value in enumerate(values, 1)
        ),
    )


def csv_of_drills(run: str, summary: DrillsSummary) -> str:
    """Return a line of CSV for each figure of each drill, the drill's name as the case, with its doubts."""
    version = ", ".join(dict.fromkeys(lab.version for lab in summary.environment.labs))
    engine = ", ".join(summary.engines)
    return csv_text(
        HEADINGS,
        (
            [run, engine, version, drill.name, figure, _unit_of(figure), 1, value, "; ".join(drill.doubts)]
            for drill in summary.drills
            for figure, value in drill.figures.items()
        ),
    )


def _unit_of(figure: str) -> str:
    name = figure.partition(".")[0]
    return "s" if name.endswith("_s") else unit_of(name)


def benchmark(found: Digest) -> str:
    """Return the mean throughput of each case as github-action-benchmark reads it (customBiggerIsBetter)."""
    return msgspec.json.format(msgspec.json.encode(list(_entries(found))), indent=2).decode() + "\n"


def _entries(found: Digest) -> Iterator[dict[str, object]]:
    for name, engine in found.engines.items():
        for case, measured in engine.cases.items():
            values = measured.figures.get("throughput")
            if values and not measured.doubts:
                yield {
                    "name": f"{found.experiment}: {case} ({name})",
                    "unit": "commits/s",
                    "value": sum(values) / len(values),
                    "range": f"± {(max(values) - min(values)) / 2:.4g}",
                    "extra": f"{len(values)} rounds, {engine.version}",
                }
