"""What the live page costs: the same load with and without it, in turn, at 85 ms with one client."""

import secrets
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from replication_lab.cli.console import tell
from replication_lab.lab import up
from replication_lab.live.roles import Route
from replication_lab.live.server import serving
from replication_lab.live.session import viewing
from replication_lab.live.tally import LoadTally
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.workloads.ledger import Ledger
from replication_lab.world import catalogue, clock, files, host
from replication_lab.world.docker import leftovers
from replication_lab.world.docker.lab import Lab

from tests.bench.command import seconds_of
from tests.bench.figure import BenchFigure, figure

ROUNDS, SECONDS, SETTLE_SECONDS = 5, 20, 3
CLIENTS, RATE = 1, 400.0
CURL = ("curl", "-sSf", "-o", "/dev/null", "-K")
# In a file, because every user of the machine can read a command line.
HEADERS = 'header = "Origin: {page}"\nheader = "X-Lab-Token: {token}"\nheader = "Authorization: Bearer {session}"\n'


def figures(name: str) -> Iterator[BenchFigure]:
    """Yield the share of throughput that the page costs, and the CPU that it takes besides the load."""
    slower, shares = [], []
    lab = up.up(LabRequest(catalogue.topology("semisync"), "mariadb", name, keep=False), tell)
    try:
        for _ in range(ROUNDS):
            without, load_cpu = _without(lab)
            seen, cpu = _with(lab)
            slower.append(1 - seen / without)
            shares.append(cpu - load_cpu)
    finally:
        leftovers.remove(name)
    yield figure("share of throughput lost to the live page, at 85 ms, one client, one browser", "", slower, 0.01)
    yield figure("CPUs that the live page and its sampling take", "", shares, 0.05)


def _without(lab: Lab) -> tuple[float, float]:
    """Return commits a second and CPUs of the same load without a page."""
    load, tally, node = Ledger({"source": CLIENTS}, rate=RATE), LoadTally(), "source"
    load.prepare(lab.node(node).server())
    with load.writing(Route(lab, node).connect, tally.write):
        return _measured(tally)


def _with(lab: Lab) -> tuple[float, float]:
    """Return them with the page and a browser that reads its stream."""
    with viewing(lab, CLIENTS, RATE) as session, serving(session, 0, lambda _: None) as address:
        page, _, token = address.partition("/#token=")
        headers = catalogue.RUNS / f"{lab.name}.curl"
        files.write_whole(headers, HEADERS.format(page=page, token=token, session=secrets.token_urlsafe(24)).encode())
        try:
            seconds_of([*CURL, str(headers), "-X", "POST", f"{page}/session"], catalogue.ROOT)
            reading = threading.Thread(target=_read, args=(page, headers))
            reading.start()
            found = _measured(session.tally)
            reading.join()
            return found
        finally:
            headers.unlink(missing_ok=True)


def _read(page: str, headers: Path) -> None:
    """Read the stream as long as the measurement takes; curl then ends with an error."""
    seconds = str(SETTLE_SECONDS + SECONDS)
    with suppress(LabError):
        seconds_of([*CURL, str(headers), "-N", "--max-time", seconds, f"{page}/events"], catalogue.ROOT)


def _measured(tally: LoadTally) -> tuple[float, float]:
    clock.pause(SETTLE_SECONDS)
    began, cpu, before = clock.timer(), host.own_cpu_seconds(), tally.acknowledged
    clock.pause(SECONDS)
    seconds = clock.timer() - began
    return (tally.acknowledged - before) / seconds, (host.own_cpu_seconds() - cpu) / seconds
