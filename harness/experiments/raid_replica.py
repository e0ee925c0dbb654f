"""Does a replica on RAID0 catch up with its source where one on RAID1 does not?"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.claim import Claim, figure, quiet_total
from harness.disk import Limits
from harness.experiment import Case, Experiment, Preset, parse_data
from harness.faults.disk_limit import limited, unchanged
from harness.record import Proof
from harness.workloads.checkpoint import USUALLY, write_pages
from harness.workloads.race import FLUSHING, REPLICAS, Race, raced_arrays, write_back
from harness.workloads.row_changes import RowChanges
from harness.world import catalogue
from harness.world.arrays import Array
from harness.world.compose import Lab
from harness.world.sql import Server

DISK = "plain-150"
ONE, MANY = ("lab",), ("lab_1", "lab_2", "lab_3", "lab_4")

# --- settings, by dialect: what a server is told is data --------------------------------------------------------------

# The source's disk is the machine's own, and never the limit.
SOURCE = {"innodb_flush_log_at_trx_commit": 0, "sync_binlog": 0, "binlog_row_image": "MINIMAL"}
# A small redo log, whose cycle fits into a measurement; nothing written twice; threads enough for two disks.
REPLICA = {
    "mariadb": {
        "innodb_log_file_size": 8 << 20,
        "innodb_doublewrite": "OFF",
        "innodb_write_io_threads": 16,
        "innodb_flush_neighbors": 0,
        "binlog_row_image": "MINIMAL",
    },
    "mysql": {"innodb_redo_log_capacity": 8 << 20, "binlog_row_image": "MINIMAL"},
}
ONE_APPLIER = {"mariadb": {"slave_parallel_threads": 0}, "mysql": {"replica_parallel_workers": 1}}
FOUR_APPLIERS = {
    "optimistic": {"slave_parallel_threads": 4, "slave_parallel_mode": "optimistic"},
    "per_database": {
        "replica_preserve_commit_order": "OFF",
        "replica_parallel_type": "DATABASE",
        "replica_parallel_workers": 4,
    },
    "logical_clock": {
        "replica_parallel_type": "LOGICAL_CLOCK",
        "replica_parallel_workers": 4,
        "replica_preserve_commit_order": "ON",
    },
}
SAID = {
    "one": "one applier",
    "optimistic": "four optimistic appliers",
    "per_database": "four appliers, one a database",
    "logical_clock": "four appliers by logical clock",
}

# --- cases ------------------------------------------------------------------------------------------------------------


def _case(mode: str, databases: tuple[str, ...] = ONE, flushing: str = "relaxed", paced: bool = False) -> Case:
    name = "-".join([mode.replace("_", "-"), *(["many"] if databases == MANY else []), *_unless(flushing, "relaxed")])
    where = "one database" if databases == ONE else f"{len(databases)} databases"
    settings = {"mode": mode, "databases": databases, "flushing": flushing, "paced": paced}
    needs = frozenset({"gtid"} if mode == "one" else {"gtid", mode})
    return Case(name, f"{SAID[mode]}, {where}, {flushing} flushing", settings, needs)


def _unless(word: str, usual: str) -> list[str]:
    return [] if word == usual else [word]


def _cases() -> tuple[Case, ...]:
    return (
        _case("one", paced=True),
        _case("one", MANY),
        _case("one", flushing="durable"),
        *(
            _case(mode, databases, flushing)
            for mode in FOUR_APPLIERS
            for databases in (ONE, MANY)
            for flushing in FLUSHING
        ),
    )


def _changes(case: Case, preset: Preset) -> RowChanges:
    return RowChanges(rows=preset.sizes["rows"], databases=case.settings["databases"])


def workload(case: Case, preset: Preset) -> Race:
    """All replicas catch up at the same time; in a paced case a steady load follows."""
    sizes, relaxed = preset.sizes, case.settings["flushing"] == "relaxed"
    return Race(
        _changes(case, preset),
        backlog=sizes["backlog" if relaxed else "durable_backlog"],
        warm=sizes["warm"] if relaxed else 1,
        window=sizes["window" if relaxed else "durable_window"],
        flushing=case.settings["flushing"],
        paced=sizes["paced"] if case.settings["paced"] else 0,
        rest=sizes["rest"],
    )


# --- arranging --------------------------------------------------------------------------------------------------------


def prepare(lab: Lab) -> None:
    """Settings, and disks that are in nobody's way except in a measurement."""
    lab.server("source").set_global(**SOURCE)
    for node in REPLICAS:
        server = lab.server(node)
        server.set_global(**REPLICA[_dialect(server)], **FLUSHING["relaxed"], **USUALLY)
    for array in raced_arrays(lab):
        array.limit(Limits())


def _dialect(server: Server) -> str:
    return "mysql" if server.dialect.redo and "redo_log" in server.dialect.redo.written else "mariadb"


def fill(lab: Lab, preset: Preset) -> None:
    """The tables of one database, and of many where a case of the preset needs them, the same on each server."""
    for databases in dict.fromkeys(case.settings["databases"] for case in experiment.chosen(preset)):
        RowChanges(rows=preset.sizes["rows"], databases=databases).fill(lab)


@contextmanager
def arrange(lab: Lab, case: Case) -> Iterator["_Watch"]:
    """The case's appliers, stopped while the source goes on, and slow disks; everything applied again at the end."""
    servers = [lab.server(node) for node in REPLICAS]
    limits = catalogue.disk(DISK).limits
    with ThreadPoolExecutor(len(servers)) as pool:
        try:
            list(pool.map(lambda server: _dress(server, case), servers))
            with limited(raced_arrays(lab), limits) as proofs:
                yield _Watch(raced_arrays(lab), servers, limits, proofs)
        finally:
            list(pool.map(lambda server: _catch_up(server, lab.server("source")), servers))
            write_back(raced_arrays(lab))


def _dress(server: Server, case: Case) -> None:
    mode = case.settings["mode"]
    server.stop_replica()
    server.set_global(**(ONE_APPLIER[_dialect(server)] if mode == "one" else FOUR_APPLIERS[mode]))
    server.start_replica()
    server.stop_applier()


def _catch_up(server: Server, source: Server) -> None:
    # Also where it should be running: whoever stopped it behind our back must not spoil the next case.
    server.start_replica()
    server.set_global(**FLUSHING["relaxed"])
    server.wait_for(source.position())
    write_pages(server)


@dataclass
class _Watch:
    """That the disks were as the case asks for, before and after, and that every replica still applies."""

    arrays: list[Array]
    servers: list[Server]
    limits: Limits
    before: list[Proof]

    def figures(self) -> dict[str, float]:
        return {}

    def proofs(self, commits: int, fastest_ms: float | None = None) -> list[Proof]:
        return [
            *self.before,
            *(unchanged(array, self.limits) for array in self.arrays),
            *(_applies(server) for server in self.servers),
        ]


def _applies(server: Server) -> Proof:
    found = server.replication()
    return Proof(
        what=f"{server.name} applies",
        expected="both threads run",
        found=(found.error or f"receives {found.connected}, applies {found.applying}") if found else "no source",
        ok=bool(found and found.healthy),
    )


# --- laws and claims --------------------------------------------------------------------------------------------------


def predict(case: Case, figures: dict[str, float]) -> dict[str, float]:
    """The law: an array writes as its disks allow, RAID0 twice as often as one of them; rows follow the writes.

    A lag grows by what the source changes less what the replica applies; who keeps up writes only what comes in.
    """
    writes = catalogue.disk(DISK).limits.write_iops
    law = {f"{name}_writes_per_second": float(writes * times) for name, times in _TIMES.items()}
    if one := figures.get("single_rows_per_second"):
        law |= {f"{name}_rows_per_second": one * times for name, times in _TIMES.items() if name != "single"}
    if load := figures.get("load_rows_per_second"):
        law |= {f"{name}_lag_slope": load - figures[f"{name}_rows_per_second"] for name in REPLICAS}
        law["raid0_writes_per_second_after"] = (
            figures["raid0_writes_per_second"] * load / figures["raid0_rows_per_second"]
        )
    return law


_TIMES = {"single": 1, "raid1": 1, "raid0": 2}


def _claims() -> tuple[Claim, ...]:
    return (*_claims_on_catching_up(), *_claims_on_a_steady_load(), *_claims_on_appliers())


def _claims_on_catching_up() -> tuple[Claim, ...]:
    return (
        Claim(
            "raid0-writes-more",
            "both catching up by one applier, RAID0 writes at least 1.2 times as often a second as RAID1",
            figure("one", "raid0_writes_per_second").over(figure("one", "raid1_writes_per_second")).at_least(1.2),
            predicted=2.0,
        ),
        Claim(
            "raid0-applies-more",
            "with one applier RAID0 applies at least 1.1 times as many rows a second as RAID1",
            figure("one", "raid0_rows_per_second")
            .over(figure("one", "raid1_rows_per_second_throughout"))
            .at_least(1.1),
            predicted=2.0,
        ),
        Claim(
            "raid1-applies-as-one-disk",
            "RAID1 of two applies as many rows a second as one disk (±20 %)",
            figure("one", "raid1_rows_per_second_throughout")
            .over(figure("one", "single_rows_per_second_throughout"))
            .between(0.8, 1.25),
            predicted=1.0,
        ),
    )


def _claims_on_a_steady_load() -> tuple[Claim, ...]:
    return (
        Claim(
            "raid0-catches-up",
            "under a load between what RAID1 and RAID0 apply, RAID0 catches up with the source",
            quiet_total("one", "raid0_never_caught_up").is_zero(trials="loads", at_least=3),
            predicted=0.0,
        ),
        Claim(
            "raid1-lag-grows",
            "under the same load the lag of RAID1 grows",
            figure("one", "raid1_lag_slope").at_least(0),
        ),
        Claim(
            "raid1-never-catches-up",
            "under the same load RAID1 never catches up",
            quiet_total("one", "raid1_kept_up").is_zero(trials="loads", at_least=3),
            predicted=0.0,
        ),
        Claim(
            "caught-up-writes-less",
            "once RAID0 has caught up it writes less often: at most 0.95 of before",
            figure("one", "raid0_writes_per_second_after").over(figure("one", "raid0_writes_per_second")).at_most(0.95),
        ),
        Claim(
            "caught-up-disks-rest",
            "once RAID0 has caught up its disks are less busy: at most 0.95 of before",
            figure("one", "raid0_busy_after").over(figure("one", "raid0_busy")).at_most(0.95),
        ),
    )


def _claims_on_appliers() -> Iterator[Claim]:
    for mode in FOUR_APPLIERS:
        yield from _claims_on_mode(mode, mode.replace("_", "-"), SAID[mode])


def _claims_on_mode(mode: str, name: str, said: str) -> tuple[Claim, ...]:
    rows = "raid1_rows_per_second"
    gains = "gain nothing: at most 1.1 times the rows of one applier"
    return (
        Claim(
            f"{name}-one-database-gains-nothing",
            f"RAID1, one database, relaxed flushing: {said} {gains}",
            figure(name, rows).over(figure("one", rows)).at_most(1.1),
            predicted=1.0,
        ),
        Claim(
            f"{name}-many-databases-gain-nothing",
            f"RAID1, four databases, relaxed flushing: {said} {gains}",
            figure(f"{name}-many", rows).over(figure("one-many", rows)).at_most(1.1),
            predicted=1.0,
        ),
        Claim(
            f"{name}-durable-gains",
            f"RAID1, one database, durable flushing: {said} apply at least 1.2 times the rows of one applier",
            figure(f"{name}-durable", rows).over(figure("one-durable", rows)).at_least(1.2),
        ),
        Claim(
            f"{name}-rescues-raid1",
            f"relaxed flushing: {said} let RAID1 apply at least 0.95 of what RAID0 applies with one",
            figure(name, rows).over(figure("one", "raid0_rows_per_second")).at_least(0.95),
        ),
        Claim(
            f"{name}-rescues-raid1-durable",
            f"durable flushing: {said} let RAID1 apply at least 0.95 of what RAID0 applies with one",
            figure(f"{name}-durable", rows).over(figure("one-durable", "raid0_rows_per_second")).at_least(0.95),
        ),
    )


QUICK = (
    "one",
    "one-durable",
    *(f"{mode.replace('_', '-')}{suffix}" for mode in FOUR_APPLIERS for suffix in ("", "-durable")),
)


# Rows of a table, to fall behind by (durable commits are slower) and to warm up by; seconds of what is measured.
ROWS = {"rows": 8000, "warm": 3000}
SMALL = ROWS | {"backlog": 8000, "durable_backlog": 8000, "window": 12, "durable_window": 16, "paced": 20, "rest": 12}
LONG = ROWS | {
    "backlog": 30_000,
    "durable_backlog": 20_000,
    "window": 60,
    "durable_window": 60,
    "paced": 120,
    "rest": 60,
}

experiment = Experiment(
    name="raid_replica",
    question=__doc__,
    topology="raid",
    cases=_cases(),
    claims=_claims(),
    presets={
        "brief": Preset(
            "brief",
            min_rounds=3,
            max_rounds=8,
            sizes=SMALL,
            cases=("one",),
        ),
        "quick": Preset(
            "quick",
            min_rounds=3,
            max_rounds=8,
            sizes=SMALL,
            cases=QUICK,
        ),
        "full": Preset(
            "full",
            min_rounds=3,
            max_rounds=12,
            sizes=LONG,
        ),
    },
    engines=("mariadb", "mysql-8.0"),
    workload=workload,
    prepare=prepare,
    fill=fill,
    arrange=arrange,
    data=parse_data(Path(__file__).with_suffix(".yaml").read_bytes()),
    predict=predict,
)
