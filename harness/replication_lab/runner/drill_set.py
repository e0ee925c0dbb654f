"""Drills by name, done one after another on labs of their own, recorded, and judged from the record."""

import os
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from replication_lab import faults, replication
from replication_lab.lab import up
from replication_lab.model import drill, drill_result, history
from replication_lab.model.drill import Drill
from replication_lab.model.drill_result import Evidence, Result
from replication_lab.model.errors import LabError, unknown_name
from replication_lab.runner.drill import carry_out
from replication_lab.world import catalogue, clock, host, journal
from replication_lab.world.docker import images, signals
from replication_lab.world.docker.lab import Lab

Tell = Callable[[str], None]
RECORD, LEDGERS = "drill.jsonl", "ledger-{}.jsonl"
TRIES = 3
SETTINGS = ("innodb_flush_log_at_trx_commit", "sync_binlog", "wsrep_sync_wait", "wsrep_retry_autocommit")


# --- which drills -----------------------------------------------------------------------------------------------------


def known() -> dict[str, list[Drill]]:
    """Every drill that there is, by topology."""
    found = {name: [load(name, each) for each in catalogue.drills(name)] for name in catalogue.topologies()}
    return {name: drills for name, drills in found.items() if drills}


def load(topology: str, name: str) -> Drill:
    """A drill of a topology; LabError for a name that is none, or a file that does not fit."""
    found = catalogue.topology(topology)
    names = catalogue.drills(topology)
    if not names:
        able = [each for each in catalogue.topologies() if catalogue.drills(each)]
        raise LabError(f"{topology} has no drills", f"one of {', '.join(able)}", "./lab drill")
    if name not in names:
        raise unknown_name(f"drill of {topology}", name, names, "./lab drill")
    return drill.parse_drill(name, found, catalogue.drill_file(topology, name).read_bytes(), faults.kinds())


def chosen(topology: str, fault: str | None, seconds: float | None) -> list[Drill]:
    """The drill of that name, or all of a topology's, lasting so long where that is asked for."""
    if seconds is not None and seconds <= 0:
        raise LabError(f"a fault of {seconds:g} s", "more than 0 seconds", "./lab drill --help")
    catalogue.topology(topology)
    return [
        load(topology, name).lasting(seconds) for name in ([fault] if fault else catalogue.drills(topology) or [""])
    ]


# --- a run of drills --------------------------------------------------------------------------------------------------


def run(topology: str, engine: str, drills: Sequence[Drill], seed: int, tell: Tell) -> tuple[Path, list[Result]]:
    """Do drills one after another on labs of their own, gone at the end whatever happens: the folder, the results."""
    with Labs(topology, engine, tell, any(each.moves_clocks(faults.kinds()) for each in drills)) as own:
        opening = _opening(own.lab(), drills, seed)
        book = Book(topology)
        book.write(opening)
        try:
            _do_all(own, drills, seed, book)
            book.write(drill_result.Closed("done"))
        except KeyboardInterrupt as stop:
            book.write(drill_result.Closed(f"interrupted by {str(stop) or 'SIGINT'}"))
            raise
        except BaseException as error:
            book.write(drill_result.Closed(f"crashed: {type(error).__name__}: {error}"))
            raise
        finally:
            book.close()
    return book.folder, judge(book.folder)


def _do_all(own: "Labs", drills: Sequence[Drill], seed: int, book: "Book") -> None:
    for each in drills:
        book.write(own.do(each, seed, book.ledger(each.name)))


class Labs:
    """A lab of a run's own, another one after each that is of no use any more; the last is gone with the block."""

    def __init__(self, topology: str, engine: str, tell: Tell, clocks_move: bool = False):
        self._topology, self._engine, self._tell, self._clocks_move = topology, engine, tell, clocks_move
        self._lab: Lab | None = None

    def lab(self) -> Lab:
        # A machine that is busy for a moment fails a link's proof; a lab that cannot be is refused each time.
        self._lab = self._lab or clock.try_again(self._up, LabError, TRIES)
        return self._lab

    def _up(self) -> Lab:
        name = f"drill-{self._topology}-{secrets.token_hex(3)}"
        return up.up(self._topology, self._engine, name, tell=self._tell, keep=False, clocks_move=self._clocks_move)

    def do(self, what: Drill, seed: int, ledger: Path) -> Evidence:
        """Do one drill on the lab, and take a lab away on which nothing could be proved any more."""
        evidence = carry_out(self.lab(), what, seed, ledger, self._tell)
        if evidence.doubts or what.rearranges:
            self.renew()
        return evidence

    def renew(self) -> None:
        """Take the lab away; the next one comes up when it is needed."""
        gone, self._lab = self._lab, None
        if gone is not None:
            with signals.signals_held():
                gone.down()

    def __enter__(self) -> "Labs":
        return self

    def __exit__(self, *_: object) -> None:
        self.renew()


class Book:
    """The folder of a run of drills: drill.jsonl, and the ledger of each drill."""

    def __init__(self, topology: str, runs: Path | None = None):
        self.folder = journal.new_folder(runs or catalogue.RUNS, f"{datetime.now():%Y%m%d-%H%M%S}-drill-{topology}")
        self._file = (self.folder / RECORD).open("ab", buffering=0)

    def write(self, event: drill_result.Event) -> None:
        self._file.write(drill_result.encode(event))
        os.fsync(self._file.fileno())

    def ledger(self, name: str) -> Path:
        return self.folder / LEDGERS.format(name)

    def close(self) -> None:
        self._file.close()


def _opening(lab: Lab, drills: Sequence[Drill], seed: int) -> drill_result.Opened:
    server = replication.of(lab).writer()
    return drill_result.Opened(
        topology=lab.topology.name,
        engine=lab.engine,
        version=server.version(),
        seed=seed,
        drills=list(drills),
        started=clock.now(),
        environment={**host.describe(), "images": images.source(), "load1": host.load1(), **_machines(lab)},
        images=lab.image_digests(),
        settings=server.settings(*SETTINGS),
    )


def _machines(lab: Lab) -> dict[str, str]:
    """What runs the virtual machines, and what their disks cost: absolute figures belong to both."""
    kind = replication.of(lab)
    for node, launcher in kind.machines().items():
        return {"machines": launcher, "disks": ", ".join(disk.limits().costs() for disk in kind.disks(node).values())}
    return {}


# --- what was recorded ------------------------------------------------------------------------------------------------


def judge(run: str | Path) -> list[Result]:
    """The results of recorded drills, from their files alone."""
    folder, events = _events(run)
    done = {event.drill.name: event for event in events if isinstance(event, Evidence)}
    closed = next((event.why for event in events if isinstance(event, drill_result.Closed)), "killed")
    return [
        _judged(folder, done[each.name])
        if each.name in done
        else drill_result.not_done(each, f"it was not done: {closed}")
        for each in events[0].drills
    ]


def _events(run: str | Path) -> tuple[Path, list[drill_result.Event]]:
    folder = find(run)
    events = drill_result.parse_events((folder / RECORD).read_bytes().splitlines(keepends=True))
    if not events or not isinstance(events[0], drill_result.Opened):
        raise LabError(
            f"{folder / RECORD} does not say what was asked for", "a first line opened", "./lab drill galera"
        )
    return folder, events


def opened(run: str | Path) -> drill_result.Opened:
    """What was asked for in a recorded run of drills, and where."""
    return _events(run)[1][0]


def _judged(folder: Path, evidence: Evidence) -> Result:
    path = folder / LEDGERS.format(evidence.drill.name)
    try:
        # Line by line: a ledger of many clients is larger than all else in memory.
        with path.open("rb") as lines:
            return drill_result.judge(evidence, *history.parse(lines))
    except FileNotFoundError:
        return drill_result.judge(evidence, [])
    except LabError as error:
        return drill_result.not_done(evidence.drill, error.found)


def find(run: str | Path) -> Path:
    """The folder of recorded drills: a path, a name under runs/, or `latest`."""
    # Who is killed at once leaves a record that does not say what was asked for.
    recorded = sorted(path.parent for path in catalogue.RUNS.glob(f"*/{RECORD}") if path.stat().st_size)
    if run == "latest" and recorded:
        return recorded[-1]
    for folder in (Path(run), catalogue.RUNS / run):
        if (folder / RECORD).is_file():
            return folder
    names = ", ".join(path.name for path in recorded[-5:])
    raise LabError(f"no drills are recorded in {run}", names or "recorded drills", "./lab drill galera")


def as_data(results: Sequence[Result]) -> list[dict]:
    """Results as plain data for --json: figures, verdicts, doubts, and the evidence without its copies' rows."""
    return [
        {
            "drill": result.drill.name,
            "figures": result.figures,
            "verdicts": [
                {
                    "says": one.sentence,
                    "verdict": one.verdict,
                    "expected": one.expected.verdict,
                    "figure": one.figure,
                    "bound": one.bound,
                    "found": one.measured,
                    "why": one.reason,
                }
                for one in result.judgements
            ],
            "doubts": result.doubts,
            "acted": msgspec.to_builtins(result.evidence.acted) if result.evidence else [],
            "returns": msgspec.to_builtins(result.evidence.returns) if result.evidence else {},
            "exit_code": result.exit_code,
        }
        for result in results
    ]
