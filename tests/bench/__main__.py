"""`make bench`: the lab's own figures, each as a ratio or a size from one run, written to runs/ and printed."""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial

import click
import msgspec
from replication_lab import experiments, runs
from replication_lab.cli import main
from replication_lab.cli.console import out, tell
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill import history
from replication_lab.model.experiment.experiment import Preset
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.storage import Storage
from replication_lab.workloads.ledger import Ledger
from replication_lab.world import catalogue, clock, files, host, journal, owners
from replication_lab.world.disks import array, overlay
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import images, leftovers, project
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.client import ApplicationClient
from rich.table import Table

from tests.bench import apart, live, watched, witnessed
from tests.bench.command import seconds_of
from tests.bench.figure import BenchFigure, figure
from tests.cpu_speed import typical_loop_us

ROUNDS = 3
# The time in which a cluster forms varies by a third. The median ratio of three starts was 1.06 once, and 1.34 later.
CLUSTERS = 7
PRESET = "bench"
LEDGER_SECONDS = 5
# Unique, so that another bench or a user's lab is not confused with this one.
NAME = f"bench-{os.getpid()}"
LAB = [sys.executable, "-m", "replication_lab"]
# The disk model that the experiments on disks use.
LIMITED = "sata-7200-tenth"
CASES = ("after-commit-direct", "after-commit-proxy", "after-commit-85ms-1")


def figures(part: str = "") -> Iterator[BenchFigure]:
    """Yield all figures, or those of a part, each as soon as it is measured."""
    for name, measured in PARTS.items():
        if part in ("", name):
            yield from measured()


def _starting() -> Iterator[BenchFigure]:
    """Measure `lab up` and raw Compose in turn, on the same files; idle memory of the raw one; `lab down`."""
    ratios, ups, downs = [], [], []
    memory: dict[str, list[float]] = {"mariadb": [], "mysql-8.0": []}
    for _ in range(ROUNDS):
        raw = _timed_raw("semisync", "mariadb", memory["mariadb"])
        ups.append(seconds_of([*LAB, "up", "semisync", "--lab", NAME], catalogue.ROOT))
        ratios.append(ups[-1] / raw)
        downs.append(seconds_of([*LAB, "down", "--yes", "--lab", NAME], catalogue.ROOT))
        _timed_raw("semisync", "mysql-8.0", memory["mysql-8.0"])
    yield figure("lab up (with its proofs) / docker compose up --wait of the same files", "", ratios, 1.3)
    yield figure("lab up, everything present", "s", ups, 6)
    yield figure("lab down", "s", downs, 3)
    yield figure("idle memory of a MariaDB node", "MiB", memory["mariadb"], 130)
    yield figure("idle memory of a MySQL 8.0 node", "MiB", memory["mysql-8.0"], 260)


def _clusters() -> Iterator[BenchFigure]:
    """Measure three Galera nodes until all are Synced, by raw Compose and by `lab up`, and the memory of each node."""
    seconds, ratios = [], []
    memory: list[float] = []
    for _ in range(CLUSTERS):
        seconds.append(_timed_raw("galera", "mariadb", memory))
        ratios.append(seconds_of([*LAB, "up", "galera", "--lab", NAME], catalogue.ROOT) / seconds[-1])
        leftovers.remove(NAME)
    yield figure("three Galera nodes Synced (docker compose up --wait)", "s", seconds, 9)
    yield figure("lab up galera (with its proofs) / docker compose up --wait of the same files", "", ratios, 1.15)
    yield figure("memory of a Galera node", "MiB", memory, 160)


def _machines() -> Iterator[BenchFigure]:
    """Measure two virtual machines with a replicated disk until the server answers, by raw Compose and by `lab up`."""
    seconds, ratios = [], []
    for _ in range(ROUNDS):
        seconds.append(_timed_raw("drbd", "mariadb", []))
        ratios.append(seconds_of([*LAB, "up", "drbd", "--lab", NAME], catalogue.ROOT) / seconds[-1])
        leftovers.remove(NAME)
    yield figure("MariaDB on DRBD in two User-mode Linux virtual machines (docker compose up --wait)", "s", seconds, 12)
    yield figure("lab up drbd (with its proofs) / docker compose up --wait of the same files", "", ratios, 1.2)


def _storage() -> Iterator[BenchFigure]:
    """Measure each backend of this host: up with RAID0 of two disks without limits, one disk's rates, and down."""
    limits = catalogue.disk(LIMITED).limits
    for backend in catalogue.backends():
        asked = ["--storage", "raid0", "--disk", "unlimited", "--backend", backend]
        try:
            overlay.with_backend({"replica": Storage(level="raid0", backend=backend)})
        except LabError as error:
            tell(f"{backend}: {error.found}")
            continue
        ups, downs, shares = [], [], []
        for _ in range(ROUNDS):
            ups.append(seconds_of([*LAB, "up", "async", "--lab", NAME, *asked], catalogue.ROOT))
            found = array.array(project.find(NAME), "replica").measure(10).values()
            shares += [limits.writes_per_second / disk.write_iops for disk in found]
            downs.append(seconds_of([*LAB, "down", "--yes", "--lab", NAME], catalogue.ROOT))
        yield figure(f"lab up async with RAID0 ({backend})", "s", ups, None)
        yield figure(f"lab down async with RAID0 ({backend})", "s", downs, None)
        yield figure(f"writes/s of {LIMITED} / writes/s of a disk without limits ({backend})", "", shares, 1 / 3)


def _ledger() -> Iterator[BenchFigure]:
    """Measure an acknowledged insert of the drills' ledger on one server that does not flush, and the clients' CPU."""
    paces, shares = [], []
    lab = up.up(LabRequest(catalogue.topology("single"), "mariadb", NAME, keep=False), tell)
    try:
        lab.node("server").server().set_global(innodb_flush_log_at_trx_commit=0, sync_binlog=0)
        for _ in range(ROUNDS):
            acknowledged, cpu = _ledger_load(lab)
            paces.append(LEDGER_SECONDS * 1000 / acknowledged)
            shares.append(cpu / LEDGER_SECONDS)
    finally:
        leftovers.remove(NAME)
    yield figure("time per acknowledged insert of the ledger (8 clients together)", "ms", paces, 1000 / 3000)
    yield figure("CPUs that the ledger uses while the 8 clients insert", "", shares, None)
    yield figure("peak memory of the ledger's process", "MiB", [host.own_memory_mib()], 300)


def _ledger_load(lab: Lab) -> tuple[int, float]:
    """Return the rows that were acknowledged to eight clients, and the CPU seconds of their process."""
    ledger, lines = Ledger({"server": 8}), catalogue.RUNS / f"{NAME}.ledger"
    ledger.prepare(lab.node("server").server())
    cpu = host.own_cpu_seconds()
    with files.open_private(lines, "wb", buffering=0) as file:
        with ledger.writing(
            lambda node: ApplicationClient(lambda: lab.node(node).server().as_application()), file.write
        ):
            clock.pause(LEDGER_SECONDS)
    cpu = host.own_cpu_seconds() - cpu
    with lines.open("rb") as written:
        acknowledged = sum(attempt.acknowledged for attempt in history.parse(written).attempts)
    lines.unlink()
    return acknowledged, cpu


def _timed_raw(topology: str, engine: str, memory: list[float]) -> float:
    """Return the seconds of `docker compose up --wait`; add the memory of each node to `memory`; remove everything."""
    compose = ["docker", "compose", "-p", NAME, "-f", str(catalogue.compose_file(topology))]
    try:
        seconds = seconds_of(
            ["env", f"ENGINE={engine}", f"LAB_OWNER={owners.owner()}", *compose, "up", "--wait"], catalogue.ROOT
        )
        lab = project.find(NAME)
        memory += [lab.node(node.name).memory_mib() for node in lab.topology.nodes]
        return seconds
    finally:
        leftovers.remove(NAME)


def _against_sandbox() -> Iterator[BenchFigure]:
    """Measure a source and two replicas of the same MySQL 5.5 binaries: the lab and Debian's mysql-sandbox in turn."""
    ratios = []
    for _ in range(ROUNDS):
        ours = _timed_raw("fanout", "mysql-5.5", [])
        peer = seconds_of(["docker", "run", "--rm", "--network", "none", "replication-lab/sandbox"], catalogue.ROOT)
        ratios.append(ours / peer)
    yield figure("source + 2 replicas of MySQL 5.5, replicating / mysql-sandbox", "", ratios, 0.6)


def _on_the_link() -> Iterator[BenchFigure]:
    """Measure a commit across 85 ms against the round trip, and the proxy without toxics against the bare link."""
    whole = experiments.load("semisync_wan")
    preset = Preset(PRESET, min_rounds=ROUNDS, max_rounds=ROUNDS, sizes=whole.preset("quick").sizes)
    claims = tuple(claim for claim in whole.claims if set(claim.relation.cases) <= set(CASES))
    small = replace(
        whole,
        cases=tuple(whole.case(name) for name in CASES),
        claims=claims,
        presets={PRESET: preset},
        data=type(whole.data)(),
    )
    folder, _ = runs.run(RunRequest(small, ["mariadb"], PRESET, seed=7), tell)
    _, record = journal.read(str(folder))
    doubts = [reason for measured in record.measurements for reason in measured.reasons_to_doubt]
    if doubts:
        raise LabError(
            f"the measurements on the link are not valid: {doubts[0]}", "every check of the link to pass", "make bench"
        )
    p50 = {case: record.series("mariadb", case, "latency_p50_ms") for case in CASES}
    trips = record.series("mariadb", "after-commit-85ms-1", "rtt_p50_ms")
    far, near, bare = (p50[case] for case in ("after-commit-85ms-1", "after-commit-proxy", "after-commit-direct"))
    yield figure("commit p50 at 85 ms / measured round trip", "", [far[n] / trips[n] for n in far if n in trips], 1.02)
    yield figure(
        "commit p50 through Toxiproxy without toxics / bare link",
        "",
        [near[n] / bare[n] for n in near if n in bare],
        None,
    )
    yield figure(
        "time that Toxiproxy without toxics adds to a commit",
        "ms",
        [near[n] - bare[n] for n in near if n in bare],
        None,
    )


PARTS: dict[str, Callable[[], Iterator[BenchFigure]]] = {
    "starting": _starting,
    "sites": partial(apart.figures, NAME),
    "clusters": _clusters,
    "machines": _machines,
    "storage": _storage,
    "ledger": _ledger,
    "sandbox": _against_sandbox,
    "link": _on_the_link,
    "live": partial(live.figures, NAME),
    "watched": partial(watched.figures, NAME),
    "witnesses": partial(witnessed.figures, NAME),
}


@click.command()
@click.argument("part", default="", type=click.Choice(["", *PARTS]))
def bench(part: str) -> None:
    """Measure all, or one PART, print a table, and write it to runs/TIME-bench.json."""
    docker_engine.ensure()
    up.tidy(tell)
    names = [*up.image_names("mariadb", True, catalogue.topology("galera"))]
    if part not in ("witnesses", "watched", "live", "ledger", "sites"):
        names += [
            *up.image_names("mariadb", topology=catalogue.topology("drbd")),
            *overlay.IMAGES,
            *("mysql-8.0", "mysql-5.5", "sandbox"),
        ]
    images.ensure(dict.fromkeys(names))
    found, loop = [], typical_loop_us()
    for one in figures(part):
        found.append(one)
        tell(f"{one.what}: {one.value:g} {one.unit}")
    table = Table(box=None, pad_edge=False)
    for heading in ("figure", "median", "95 % of mean", "goal", "met", "readings"):
        table.add_column(heading)
    for one in found:
        met = {True: "yes", False: "NO", None: ""}[one.met]
        goal = "" if one.goal is None else f"≤ {one.goal:g}"
        interval = "" if one.interval is None else "{:g} to {:g}".format(*one.interval)
        readings = ", ".join(f"{each:g}" for each in one.readings)
        table.add_row(one.what, f"{one.value:g} {one.unit}", interval, goal, met, readings)
    out.print(table)
    now = datetime.now()
    written = {"day": f"{now:%Y-%m-%d}", "environment": {**host.describe(), "loop_us": loop}, "figures": found}
    path = catalogue.RUNS / f"{now:%Y%m%d-%H%M%S}-bench.json"
    files.write_whole(path, msgspec.json.format(msgspec.json.encode(written)))
    name = path.relative_to(catalogue.ROOT)
    kept = f"tests/records/bench{part and f'-{part}'}.json"
    tell(f"written to {name}; for docs/project.md: cp {name} {kept} && make figures")


if __name__ == "__main__":
    main(bench, "python -m tests.bench")
