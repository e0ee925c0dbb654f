"""Which figures are known at which distance: a table of topologies and round trips, for a quiet machine."""

from collections import Counter
from datetime import datetime
from statistics import median

import click
import msgspec
from replication_lab import experiments, runs
from replication_lab.cli import main
from replication_lab.cli.console import out, tell
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.figures import three_digits
from replication_lab.model.core.proof import Proof
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.question.question import NAME, Question
from replication_lab.model.record.measurement import Measurement, SeenToxic
from replication_lab.report import ExperimentSummary
from replication_lab.world import catalogue, files, journal
from rich.table import Table

TOPOLOGIES = "async,semisync,galera,group,drbd"
ROUND_TRIPS_MS = "1,2,5,10,20,40,85"
CLIENTS = "1,8"
GOAL = 0.95


class Asked(msgspec.Struct, frozen=True):
    """One question: how many of its figures were known, why the others were not, and how far away its links were.

    `rtt_ms` is the median of the round trips that were measured during the loads; None if none was. `doubts` are those
    that neither noise nor a slow moment of the machine explains: on a quiet machine each is falsely unknown.
    """

    topology: str
    asked_ms: int
    known: int
    figures: int
    reasons: list[str]
    rtt_ms: float | None
    doubts: list[str]
    noisy: int
    measurements: int
    record: str

    @property
    def cell(self) -> str:
        trip = "" if self.rtt_ms is None else f" at {three_digits(self.rtt_ms)} ms"
        return f"{self.known} of {self.figures}{trip}"


@click.command()
@click.option("--topologies", default=TOPOLOGIES, help="Topologies, separated by commas.")
@click.option("--rtt", default=ROUND_TRIPS_MS, help="Round trips in ms.")
@click.option("--clients", default=CLIENTS, help="Numbers of clients; the first is compared with the others.")
@click.option("--times", default=1, help="How many times each question is asked.")
@click.option("--runs", "rounds", default=12, help="Maximum number of rounds of a question.")
@click.option("--noise", default="wait", help="As of `lab ask`.")
def distances(*, topologies: str, rtt: str, clients: str, times: int, rounds: int, noise: str) -> None:
    """Ask for the effect of clients at each distance, print how many figures are known, and write runs/TIME."""
    found: list[Asked] = []
    path = catalogue.RUNS / f"{datetime.now():%Y%m%d-%H%M%S}-distances.json"
    for number in range(times):
        for topology in topologies.split(","):
            for trip in rtt.split(","):
                try:
                    found.append(_asked(topology, int(trip), clients.split(","), rounds, 7 + number, noise))
                except LabError as error:
                    found.append(Asked(topology, int(trip), 0, 2, [error.found], None, [], 0, 0, ""))
                tell(
                    f"{topology} at {trip} ms: {found[-1].cell}; {len(found[-1].doubts)} doubts: {found[-1].doubts[:3]}"
                )
                files.write_whole(path, msgspec.json.format(msgspec.json.encode(found)))
    out.print(_table(found))
    known, figures = sum(one.known for one in found), sum(one.figures for one in found)
    noisy, measured = sum(one.noisy for one in found), sum(one.measurements for one in found)
    tell(f"{known} of {figures} figures are known ({known / figures:.0%}; goal {GOAL:.0%}); {path.name}")
    tell(f"{noisy} of {measured} measurements were noisy; {sum(len(one.doubts) for one in found)} doubts without noise")


def _asked(topology: str, trip: int, clients: list[str], rounds: int, seed: int, noise: str) -> Asked:
    question = Question(topologies=[topology], vary={"clients": clients}, settings={"rtt": f"{trip}ms"}, rounds=rounds)
    experiment = experiments.asked(question)
    folder, summary = runs.run(RunRequest(experiment, experiment.engines, NAME, seed, noise), tell)
    runs.raise_interruption(summary)
    _, record = journal.read(str(folder))
    trips = [one.figures["rtt_p50_ms"] for one in record.measurements if one.counts and one.figures.get("rtt_p50_ms")]
    unknown = [claim for claim in summary.claims if claim.verdict is not Verdict.HOLDS]
    return Asked(
        topology=topology,
        asked_ms=trip,
        known=len(summary.claims) - len(unknown),
        figures=len(summary.claims),
        reasons=_reasons(summary),
        rtt_ms=median(trips) if trips else None,
        doubts=[doubt for one in record.measurements for doubt in _doubts(one)],
        noisy=sum(not one.noise.quiet for one in record.measurements),
        measurements=len(record.measurements),
        record=folder.name,
    )


def _doubts(measured: Measurement) -> list[str]:
    parts: list[SeenToxic | Proof] = [*measured.faults, *measured.proofs]
    return [*measured.doubts, *(part.doubt for part in parts if part.doubt and not part.slow)]


def _reasons(summary: ExperimentSummary) -> list[str]:
    return list(dict.fromkeys(claim.reason for claim in summary.claims if claim.verdict is not Verdict.HOLDS))


def _table(found: list[Asked]) -> Table:
    """Return a row for each topology and a column for each distance, with the figures of all times."""
    distances = sorted({one.asked_ms for one in found})
    table = Table(box=None, pad_edge=False)
    for heading in ("topology", *(f"{trip} ms" for trip in distances)):
        table.add_column(heading)
    for topology in dict.fromkeys(one.topology for one in found):
        cells = Counter[int]()
        of = Counter[int]()
        for one in found:
            if one.topology == topology:
                cells[one.asked_ms] += one.known
                of[one.asked_ms] += one.figures
        table.add_row(topology, *(f"{cells[trip]} of {of[trip]}" for trip in distances))
    return table


if __name__ == "__main__":
    main(distances, "python -m tests.bench.distances")
